import type { ReactNode } from "react";
import { m } from "../messages";
import { Logo } from "./Logo";

/** The frame before it is known who looks; index.html has the same, for the time before that. */
export function Boot({ children }: { children?: ReactNode }) {
  return (
    <div className="shell">
      <header className="sidebar">
        <span className="brand">
          <Logo />
          <span>{m.app.name}</span>
        </span>
      </header>
      <main className="content">{children ? <div className="boot">{children}</div> : null}</main>
    </div>
  );
}
