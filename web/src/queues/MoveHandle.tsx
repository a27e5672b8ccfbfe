import { Menu } from "@base-ui/react/menu";
import { ArrowUpDown } from "lucide-react";
import type { KeyboardEvent } from "react";
import { m } from "../messages";

const q = m.queue;
type Where = "front" | "up" | "down" | "end";

/** Takes a run along the line without dragging: by Alt and the arrows, or by its menu. */
export function MoveHandle({
  name,
  first,
  last,
  onMove,
}: {
  name: string;
  first: boolean;
  last: boolean;
  onMove: (where: Where) => void;
}) {
  const onKey = (event: KeyboardEvent) => {
    const where = { ArrowUp: "up", ArrowDown: "down" }[event.key] as Where | undefined;
    if (!event.altKey || where === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (!(where === "up" ? first : last)) onMove(where);
  };
  const items: [Where, string, boolean][] = [
    ["front", q.toFront, first],
    ["up", q.up, first],
    ["down", q.down, last],
    ["end", q.toEnd, last],
  ];
  return (
    <Menu.Root>
      <Menu.Trigger
        className="button ghost icon-only"
        aria-label={q.move(name)}
        title={q.moveHint}
        onKeyDownCapture={onKey}
      >
        <ArrowUpDown size={14} aria-hidden="true" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner align="start" sideOffset={4} className="positioner">
          <Menu.Popup className="menu">
            {items.map(([where, label, off]) => (
              <Menu.Item key={where} className="menu-item" disabled={off} onClick={() => onMove(where)}>
                {label}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
