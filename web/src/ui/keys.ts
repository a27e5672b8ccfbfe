import { useEffect, useRef } from "react";

type Bindings = Record<string, (event: KeyboardEvent) => void>;

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** A focused button or link has its own idea of these keys. */
const ownKey = (event: KeyboardEvent): boolean =>
  (event.key === "Enter" || event.key === " ") &&
  event.target instanceof HTMLElement &&
  event.target.closest("button, a, [role=tab], [role=checkbox]") !== null;

const inOverlay = (): boolean =>
  document.querySelector("[role=dialog]:not(.toast), [role=alertdialog]:not(.toast), [role=menu]") !== null;

const isApple = /Mac|iPhone|iPad/.test(navigator.platform);

/** As it is written on the keys of this machine: `⌘K`, `Ctrl K`. */
export const modKey = (key: string, between = isApple ? "" : " "): string =>
  `${isApple ? "⌘" : "Ctrl"}${between}${key}`;

const CHORD_MS = 900;

/** Keys of the page: `j`, `/`, `?`, `mod+k`, or one after the other: `g r`. Not while somebody types. */
export function useKeys(bindings: Bindings): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  useEffect(() => {
    let first = "";
    let at = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.altKey) return;
      const mod = event.metaKey || event.ctrlKey;
      const key = mod ? `mod+${event.key.toLowerCase()}` : event.key;
      // What is typed into a shadow tree seems to come from the element around it.
      if (!mod && (typing(event.composedPath()[0] ?? null) || ownKey(event) || inOverlay())) return;
      const chord = Date.now() - at < CHORD_MS ? latest.current[`${first} ${key}`] : undefined;
      first = key;
      at = Date.now();
      const found = chord ?? latest.current[key];
      if (found === undefined) return;
      event.preventDefault();
      found(event);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
