"""How close the foiling functions come to the released benchmark: its items rebuilt from what they were made of."""
