"""Dead letters as a client sees them: `dead_letters.py` is the public class."""
