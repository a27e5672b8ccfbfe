/** The drawer has an address: `?launch=new`, `queue:ENTITY/NAME`, `job:ENTITY/PROJECT/NAME:v3`, `run:ID`. */
import { useRouter, useRouterState } from "@tanstack/react-router";

export type Begin =
  | { readonly from: "new" }
  | { readonly from: "queue"; readonly entity: string; readonly queue: string }
  | {
      readonly from: "job";
      readonly entity: string;
      readonly project: string;
      readonly job: string;
      readonly version: string;
    }
  | { readonly from: "run"; readonly run: string };

export function readBegin(text: string): Begin {
  const [from, rest = ""] = split(text, ":");
  const parts = rest.split("/");
  if (from === "run" && rest) return { from, run: rest };
  if (from === "queue" && parts.length === 2) {
    const [entity = "", queue = ""] = parts;
    return { from, entity, queue };
  }
  if (from === "job" && parts.length === 3) {
    const [entity = "", project = "", name = ""] = parts;
    const [job = "", version = "latest"] = split(name, ":");
    return { from, entity, project, job, version };
  }
  return { from: "new" };
}

function split(text: string, mark: string): string[] {
  const place = text.indexOf(mark);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

export function beginText(begin: Begin): string {
  switch (begin.from) {
    case "new":
      return "new";
    case "queue":
      return `queue:${begin.entity}/${begin.queue}`;
    case "job":
      return `job:${begin.entity}/${begin.project}/${begin.job}:${begin.version}`;
    case "run":
      return `run:${begin.run}`;
  }
}

let opener: HTMLElement | null = null;

/** Who gets the focus back when the drawer closes. */
export const launchOpener = (): HTMLElement | null => (opener?.isConnected ? opener : null);

/** What the address says of a launch, and how to change that. */
export function useLaunch() {
  const router = useRouter();
  const text = useRouterState({
    select: (state) => new URLSearchParams(state.location.searchStr).get("launch"),
  });
  const go = (launch: string | null, replace: boolean) => {
    const { pathname, searchStr, hash } = router.state.location;
    const search = new URLSearchParams(searchStr);
    if (launch === null) search.delete("launch");
    else search.set("launch", launch);
    const words = search.toString();
    const href = `${pathname}${words ? `?${words}` : ""}${hash ? `#${hash}` : ""}`;
    if (replace) router.history.replace(href);
    else router.history.push(href);
  };
  return {
    text,
    open: (begin: Begin) => {
      opener = document.activeElement instanceof HTMLElement ? document.activeElement : null;
      go(beginText(begin), false);
    },
    close: () => go(null, true),
  };
}
