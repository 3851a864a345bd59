"""How close each instrument comes to the released benchmark: its functions on the inputs of the released items."""
