"""SWiG: noun phrases of fillers, frames ordered by their verb's abstract, and short active captions."""
