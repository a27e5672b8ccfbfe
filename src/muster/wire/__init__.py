"""The models that cross HTTP, shared by server and client."""
