import { Toast } from "@base-ui/react/toast";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { ProblemError } from "../api/client";
import { m } from "../messages";

const manager = Toast.createToastManager();

export function say(title: string): void {
  manager.add({ title, timeout: 4000 });
}

export function complain(error: unknown): void {
  const problem = error instanceof ProblemError ? error.problem : null;
  manager.add({
    title: problem?.detail ?? String(error),
    description: problem?.hint ?? "",
    type: "error",
    priority: "high",
    timeout: 9000,
  });
}

export function Toasts({ children }: { children: ReactNode }) {
  return (
    <Toast.Provider toastManager={manager}>
      {children}
      <Toast.Portal>
        <Toast.Viewport className="toasts">
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function List() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className={`toast ${toast.type ?? ""}`}>
      <Toast.Content className="toast-content">
        <Toast.Title className="toast-title" />
        <Toast.Description className="toast-description" />
        <Toast.Close className="button ghost icon-only" aria-label={m.common.close}>
          <X size={14} />
        </Toast.Close>
      </Toast.Content>
    </Toast.Root>
  ));
}
