// Before the first paint: a colour scheme that was chosen here wins over the system's.
try {
  const theme = localStorage.getItem("muster.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage may be forbidden: then the system decides
}
