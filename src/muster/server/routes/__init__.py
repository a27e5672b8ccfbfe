"""One module a resource; each route is a thin call of a service."""
