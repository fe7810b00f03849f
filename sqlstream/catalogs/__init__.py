"""Where definitions live: catalogs in memory, in folders of SQL files, of Spark, and over databases that are there."""
