"""What both parties know: how messages are packed, sent and answered, and which are refused. Nothing of one party."""
