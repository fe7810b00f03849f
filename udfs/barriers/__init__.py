"""Barriers in the data: markers that arrive on several channels are aligned to consistent cuts through all of them."""
