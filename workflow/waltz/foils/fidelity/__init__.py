"""How close the foiling functions come to the released benchmark, one module a group of instruments."""
