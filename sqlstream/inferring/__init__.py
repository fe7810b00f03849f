"""CREATE TABLE proposed from what files and topics hold: ``sqlstream infer``."""
