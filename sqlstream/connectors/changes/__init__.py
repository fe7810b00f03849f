"""Tables of databases as streams of their rows and of their changes, whichever server they are on."""
