"""Object stores: the options of tables whose files lie in one, and its objects as files that readers open."""
