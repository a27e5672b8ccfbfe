import { useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { GitCompareArrows, X } from "lucide-react";
import { Fragment, useState } from "react";
import { api, ask, type Run } from "../api/client";
import { m } from "../messages";
import { show } from "../run/Overview";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { StateBadge } from "../ui/StateBadge";
import { sections } from "./differences";

const c = m.compare;

export function ComparePage() {
  const search = useSearch({ strict: false }) as { runs?: string };
  const navigate = useNavigate();
  const ids = [...new Set((search.runs ?? "").split(",").filter(Boolean))];
  const [only, setOnly] = useState(true);
  const found = useQueries({
    queries: ids.map((id) => ({
      queryKey: ["run", id],
      queryFn: () => ask(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } } })),
    })),
  });
  const runs = found.map((query) => query.data).filter((run) => run !== undefined);
  const error = found.find((query) => query.error)?.error;
  const without = (id: string) =>
    void navigate({
      to: "/compare",
      search: { runs: ids.filter((one) => one !== id).join(",") },
      replace: true,
    });
  return (
    <div className="page">
      <div className="page-head">
        <h1>{c.title}</h1>
        <label className="check-label">
          <input type="checkbox" checked={only} onChange={(event) => setOnly(event.target.checked)} />
          {c.onlyDifferent}
        </label>
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {ids.length === 0 ? (
        <Empty icon={GitCompareArrows} title={c.emptyTitle}>
          {c.empty}
        </Empty>
      ) : found.some((query) => query.isPending) ? (
        <Skeleton />
      ) : (
        <Side runs={runs} only={only && runs.length > 1} onRemove={without} />
      )}
    </div>
  );
}

function Side({
  runs,
  only,
  onRemove,
}: {
  runs: readonly Run[];
  only: boolean;
  onRemove: (id: string) => void;
}) {
  const parts = sections(runs)
    .map((section) => ({ ...section, properties: section.properties.filter((one) => one.differs || !only) }))
    .filter((section) => section.properties.length);
  return (
    <div className="scroll-x">
      <table className="table compare" aria-label={c.label}>
        <thead>
          <tr>
            <td />
            {runs.map((run) => (
              <th key={run.id} scope="col">
                <span className="compare-head">
                  <Link to="/runs/$runId" params={{ runId: run.id }} className="run-name cut">
                    {run.name}
                  </Link>
                  <button
                    type="button"
                    className="button ghost icon-only"
                    aria-label={c.remove(run.name)}
                    onClick={() => onRemove(run.id)}
                  >
                    <X size={13} />
                  </button>
                </span>
                <span className="mono faint">{run.id}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {parts.map((section) => (
            <Fragment key={section.key}>
              <tr className="compare-part">
                <th scope="rowgroup" colSpan={runs.length + 1}>
                  {c.sections[section.key]}
                </th>
              </tr>
              {section.properties.map((property) => (
                <tr key={property.name}>
                  <th scope="row">{property.name}</th>
                  {property.values.map((value, i) => (
                    <td key={runs[i]?.id} className={property.differs ? "differs" : ""}>
                      {property.name === "state" ? (
                        <StateBadge state={String(value)} />
                      ) : (
                        <code>{show(value ?? undefined)}</code>
                      )}
                    </td>
                  ))}
                </tr>
              ))}
            </Fragment>
          ))}
        </tbody>
      </table>
      {parts.length === 0 ? <p className="dim">{c.same}</p> : null}
    </div>
  );
}
