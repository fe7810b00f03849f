"""``mysql-cdc``: tables of MySQL and MariaDB as streams of their rows and of their changes."""
