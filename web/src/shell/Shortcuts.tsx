import { Dialog } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import { m } from "../messages";
import { modKey } from "../ui/keys";

const s = m.shortcuts;
const PARTS: { title: string; keys: [string, string][] }[] = [
  {
    title: s.everywhere,
    keys: [
      [modKey("K", " "), s.palette],
      ["?", s.help],
      ["l", s.launch],
      ["g r", s.goRuns],
      ["g j", s.goJobs],
      ["g q", s.goQueues],
      ["g a", s.goAgents],
      ["g c", s.goCluster],
      ["/", s.search],
    ],
  },
  {
    title: s.inList,
    keys: [
      ["j", s.down],
      ["k", s.up],
      ["Enter", s.open],
      ["x", s.select],
      ["Esc", s.escape],
    ],
  },
  {
    title: s.inRun,
    keys: [
      ["1 … 6", s.tabs],
      ["f", s.follow],
    ],
  },
];

export function Shortcuts({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title className="dialog-title">{s.title}</Dialog.Title>
          <Dialog.Close className="button ghost icon-only dialog-x" aria-label={m.common.close}>
            <X size={16} />
          </Dialog.Close>
          {PARTS.map((part) => (
            <section key={part.title} className="keys">
              <h2 className="faint">{part.title}</h2>
              <dl>
                {part.keys.map(([key, what]) => (
                  <div key={key}>
                    <dt>{what}</dt>
                    <dd>
                      {key.split(" ").map((one) => (
                        <kbd key={one}>{one}</kbd>
                      ))}
                    </dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
