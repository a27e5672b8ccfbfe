/** One property to filter by: a button that opens a list with a search field. Free text may be used, too. */
import { Combobox } from "@base-ui/react/combobox";
import { Check, ChevronDown, X } from "lucide-react";
import { useState } from "react";
import { m } from "../messages";

export function Facet({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string | null;
  options: readonly string[];
  onChange: (value: string | null) => void;
}) {
  const [text, setText] = useState("");
  const [used, setUsed] = useState(false);
  const items = value !== null && !options.includes(value) ? [value, ...options] : options;
  const name = value === null ? label : `${label} ${value}`; // as it is seen
  const face = (
    <>
      <span className="dim">{label}</span>{" "}
      {value !== null ? (
        <strong className="cut">{value}</strong>
      ) : (
        <ChevronDown size={13} aria-hidden="true" />
      )}
    </>
  );
  return (
    <span className={`facet ${value !== null ? "set" : ""}`}>
      {used ? (
        <Combobox.Root
          defaultOpen
          items={items}
          value={value}
          onValueChange={(next) => onChange(next)}
          inputValue={text}
          onInputValueChange={setText}
        >
          <Combobox.Trigger className="button plain facet-button" aria-label={name}>
            {face}
          </Combobox.Trigger>
          <Combobox.Portal>
            <Combobox.Positioner className="positioner" align="start" sideOffset={4}>
              <Combobox.Popup className="menu facet-menu" aria-label={label}>
                <Combobox.Input
                  className="input"
                  placeholder={m.runs.facetSearch(label)}
                  aria-label={m.runs.facetSearch(label)}
                  onKeyDown={(event) => {
                    if (event.key === "Enter" && text && !items.some((item) => item.includes(text)))
                      onChange(text);
                  }}
                />
                <Combobox.Empty className="facet-none">{m.runs.facetNone}</Combobox.Empty>
                <Combobox.List className="facet-list">
                  {(item: string) => (
                    <Combobox.Item key={item} value={item} className="menu-item">
                      <span className="cut">{item}</span>
                      <Combobox.ItemIndicator className="menu-check">
                        <Check size={13} />
                      </Combobox.ItemIndicator>
                    </Combobox.Item>
                  )}
                </Combobox.List>
              </Combobox.Popup>
            </Combobox.Positioner>
          </Combobox.Portal>
        </Combobox.Root>
      ) : (
        // Most are never opened: the list and all that it takes are made when one is.
        <button
          type="button"
          className="button plain facet-button"
          aria-label={name}
          aria-haspopup="dialog"
          aria-expanded="false"
          onClick={() => setUsed(true)}
        >
          {face}
        </button>
      )}
      {value !== null ? (
        <button
          type="button"
          className="facet-clear"
          aria-label={`${m.common.clear}: ${label}`}
          onClick={() => onChange(null)}
        >
          <X size={12} />
        </button>
      ) : null}
    </span>
  );
}
