"""The HTTP door: REST with OpenAPI, server-sent events, sign-in."""
