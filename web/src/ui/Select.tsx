import { Select as Base } from "@base-ui/react/select";
import { Check, ChevronDown } from "lucide-react";

export interface Option {
  readonly value: string;
  readonly label: string;
  readonly disabled?: boolean;
}

export function Select({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: readonly Option[];
  onChange: (value: string) => void;
}) {
  return (
    <Base.Root items={options} value={value} onValueChange={(next) => next !== null && onChange(next)}>
      <Base.Trigger className="button plain select" aria-label={label}>
        <span className="cut">
          <Base.Value />
        </span>
        <ChevronDown size={13} aria-hidden="true" />
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner className="positioner" sideOffset={4} alignItemWithTrigger={false}>
          <Base.Popup className="menu">
            <Base.List>
              {options.map((option) => (
                <Base.Item
                  key={option.value}
                  value={option.value}
                  disabled={option.disabled ?? false}
                  className="menu-item"
                >
                  <Base.ItemText>{option.label}</Base.ItemText>
                  <Base.ItemIndicator className="menu-check">
                    <Check size={13} />
                  </Base.ItemIndicator>
                </Base.Item>
              ))}
            </Base.List>
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
