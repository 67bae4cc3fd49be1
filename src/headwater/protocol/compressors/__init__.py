"""One module for each codec, imported when a batch first needs it: the libraries behind them cost start-up time and
memory, and few brokers see all of them.

Each has `compress`, `decompress`, and in `DAMAGE` the errors with which its library refuses bytes.
"""
