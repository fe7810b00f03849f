"""Files as tasks read and write them: splits and lists of a micro-batch, readers by format, files that tasks write."""
