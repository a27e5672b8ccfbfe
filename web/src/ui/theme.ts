import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "muster.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function theme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export function setTheme(next: Theme): void {
  const root = document.documentElement;
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  remember(KEY, next === "system" ? null : next);
  for (const listener of listeners) listener();
}

export const isDark = (): boolean => theme() === "dark" || (theme() === "system" && system.matches);

/** For what is painted, not styled: it is drawn anew when the scheme changes. */
export function useDark(): boolean {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    system.addEventListener("change", listener);
    return () => {
      listeners.delete(listener);
      system.removeEventListener("change", listener);
    };
  }, isDark);
}

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, theme);
}

/** Settings of this browser; it may forbid to keep them. */
export function remember(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // then it is forgotten
  }
}

export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
