export function Logo({ size = 20 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="logo">
      <rect width="32" height="32" rx="8" />
      <path d="M9 21 16 11l7 10" />
      <circle cx="9" cy="21" r="3" />
      <circle cx="16" cy="11" r="3" />
      <circle cx="23" cy="21" r="3" />
    </svg>
  );
}
