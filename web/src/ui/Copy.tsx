import { Check, Copy as CopyIcon } from "lucide-react";
import { useState } from "react";
import { m } from "../messages";
import { Button } from "./Button";

/** Also where the page is not of a secure origin, and the clipboard API therefore missing. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden-label";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function CopyButton({ text, label = m.common.copy }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  const icon = done ? <Check size={14} /> : <CopyIcon size={14} />;
  return (
    <Button
      kind="ghost"
      icon={icon}
      onClick={copy}
      aria-label={done ? m.common.copied : label}
      title={label}
    />
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}

/** Hands a file to the reader. */
export function saveAs(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
