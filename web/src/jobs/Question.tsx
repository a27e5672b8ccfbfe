import { Dialog } from "@base-ui/react/dialog";
import { type FormEvent, useState } from "react";
import { m } from "../messages";
import { ErrorNote } from "../ui/Notes";

/** Asks for one word; what the server says against it stands beneath. */
export function Question({
  title,
  hint,
  label,
  initial,
  action,
  onClose,
  onAnswer,
}: {
  title: string;
  hint: string;
  label: string;
  initial: string;
  action: string;
  onClose: () => void;
  onAnswer: (word: string) => Promise<void>;
}) {
  const [word, setWord] = useState(initial);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onAnswer(word.trim());
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <Dialog.Root open onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title className="dialog-title">{title}</Dialog.Title>
          <form className="dialog-body" onSubmit={submit}>
            <Dialog.Description>{hint}</Dialog.Description>
            <input
              className="input"
              aria-label={label}
              value={word}
              required
              maxLength={64}
              spellCheck={false}
              autoComplete="off"
              onChange={(event) => setWord(event.target.value)}
            />
            {error ? <ErrorNote error={error} /> : null}
            <div className="dialog-actions">
              <Dialog.Close className="button plain" disabled={busy}>
                {m.common.cancel}
              </Dialog.Close>
              <button type="submit" className="button primary" disabled={busy || !word.trim()}>
                {action}
              </button>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
