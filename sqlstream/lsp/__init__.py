"""The language server: what ``Planner`` tells, in the protocol that editors speak. Needs the extra ``lsp``."""
