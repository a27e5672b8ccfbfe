/** What stands where there is nothing to show: not yet, not any more, not allowed, not working. */
import { AlertTriangle, type LucideIcon, RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import { ProblemError } from "../api/client";
import { m } from "../messages";
import { Button } from "./Button";

export function Empty({
  icon: Icon,
  title,
  whole = false,
  children,
}: {
  icon: LucideIcon;
  title: string;
  whole?: boolean; //: is all that the page says
  children?: ReactNode;
}) {
  return (
    <div className="empty">
      <Icon size={22} strokeWidth={1.6} aria-hidden="true" />
      {whole ? <h1>{title}</h1> : <h2>{title}</h2>}
      <div className="dim">{children}</div>
    </div>
  );
}

export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = error instanceof ProblemError ? error.problem : null;
  return (
    <div className="error-note" role="alert">
      <AlertTriangle size={16} aria-hidden="true" />
      <div>
        <strong>{problem?.detail ?? (error instanceof Error ? error.message : m.errors.title)}</strong>
        {problem?.hint ? <div className="dim">{problem.hint}</div> : null}
      </div>
      {onRetry ? (
        <Button icon={<RotateCw size={14} />} onClick={onRetry}>
          {m.common.retry}
        </Button>
      ) : null}
    </div>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div className="skeleton" role="status" aria-label={m.common.loading}>
      {Array.from({ length: rows }, (_, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
        <div key={i} style={{ width: `${92 - ((i * 37) % 45)}%` }} />
      ))}
    </div>
  );
}
