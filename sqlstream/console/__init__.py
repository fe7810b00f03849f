"""The web page of ``sqlstream jobs serve``: all jobs of a folder, their last hour, and what may be asked of them."""
