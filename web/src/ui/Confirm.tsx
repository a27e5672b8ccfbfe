import { AlertDialog } from "@base-ui/react/alert-dialog";
import { type ReactNode, useState } from "react";
import { m } from "../messages";
import { Button } from "./Button";
import { complain } from "./Toasts";

/** Asks before something happens, saying what it means. */
export function Confirm({
  open,
  onClose,
  title,
  children,
  action,
  danger = false,
  onConfirm,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  onConfirm: () => Promise<void>;
}) {
  const [busy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <AlertDialog.Root open={open} onOpenChange={(next) => !next && !busy && onClose()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title className="dialog-title">{title}</AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="dialog-body">
            {children}
          </AlertDialog.Description>
          <div className="dialog-actions">
            <AlertDialog.Close className="button plain" disabled={busy}>
              {m.common.cancel}
            </AlertDialog.Close>
            <Button kind={danger ? "danger" : "primary"} disabled={busy} onClick={confirm}>
              {action}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
