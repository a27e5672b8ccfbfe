import type { ComponentProps, ReactNode } from "react";

type Kind = "plain" | "primary" | "danger" | "ghost";

export function Button({
  kind = "plain",
  icon,
  children,
  className = "",
  ...rest
}: { kind?: Kind; icon?: ReactNode; children?: ReactNode } & ComponentProps<"button">) {
  const only = children === undefined ? "icon-only" : "";
  return (
    <button type="button" className={`button ${kind} ${only} ${className}`} {...rest}>
      {icon}
      {children}
    </button>
  );
}
