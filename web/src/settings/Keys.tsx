/** API keys: made here, shown once, revoked here. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { type FormEvent, useState } from "react";
import { type ApiKey, api, ask, type Me, type NewApiKey } from "../api/client";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { Command } from "../ui/Copy";
import { ErrorNote } from "../ui/Notes";
import { Ago } from "../ui/Time";
import { say } from "../ui/Toasts";

const s = m.settings;

export const useKeys = () => useQuery({ queryKey: ["keys"], queryFn: () => ask(api.GET("/api/v1/keys")) });

export function Keys({ me }: { me: Me }) {
  const client = useQueryClient();
  const found = useKeys();
  const [made, setMade] = useState<NewApiKey | null>(null);
  const reload = () => client.invalidateQueries({ queryKey: ["keys"] });
  return (
    <section aria-label={s.keys}>
      <h2>{s.keys}</h2>
      <p className="dim">{s.keysHint}</p>
      <NewKey
        me={me}
        onMade={(key) => {
          setMade(key);
          void reload();
        }}
      />
      {made ? (
        <div className="made" role="status">
          <strong>{s.keyMade(made.label)}</strong>
          <Command text={made.key} />
        </div>
      ) : null}
      {found.error ? <ErrorNote error={found.error} onRetry={() => void found.refetch()} /> : null}
      {found.data ? (
        <div className="scroll-x">
          <table className="table" aria-label={s.keys}>
            <thead>
              <tr>
                <th scope="col">{s.label}</th>
                <th scope="col">{s.kind}</th>
                <th scope="col">{s.user}</th>
                <th scope="col" className="right">
                  {s.made}
                </th>
                <th scope="col" className="right">
                  {s.expires}
                </th>
                <td />
              </tr>
            </thead>
            <tbody>
              {found.data.items.map((key) => (
                <Line key={key.id} of={key} onGone={reload} />
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </section>
  );
}

function NewKey({ me, onMade }: { me: Me; onMade: (key: NewApiKey) => void }) {
  const [error, setError] = useState<unknown>(null);
  const [kind, setKind] = useState("user");
  const managed = Object.keys(me.roles).filter((entity) => me.server_admin || me.roles[entity] === "admin");
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    const days = Number(given.get("days"));
    const body = {
      label: String(given.get("label")).trim(),
      kind: kind as "user" | "agent",
      ...(kind === "agent" ? { entity: String(given.get("entity")) } : {}),
      ...(days ? { days } : {}),
    };
    try {
      onMade(await ask(api.POST("/api/v1/keys", { body })));
      setError(null);
      form.reset();
      setKind("user");
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <>
      <form className="line-form" onSubmit={submit}>
        <label>
          {s.label}
          <input className="input" name="label" required maxLength={128} placeholder={s.labelExample} />
        </label>
        <label>
          {s.kind}
          <select className="input" value={kind} onChange={(event) => setKind(event.target.value)}>
            <option value="user">{s.kinds.user}</option>
            {managed.length ? <option value="agent">{s.kinds.agent}</option> : null}
          </select>
        </label>
        {kind === "agent" ? (
          <label>
            {s.serves}
            <select className="input" name="entity">
              {managed.map((entity) => (
                <option key={entity}>{entity}</option>
              ))}
            </select>
          </label>
        ) : null}
        <label>
          {s.days}
          <input className="input" name="days" type="number" min={1} max={3650} placeholder={s.forEver} />
        </label>
        <button type="submit" className="button primary">
          <Plus size={14} aria-hidden="true" />
          {s.makeKey}
        </button>
      </form>
      {error ? <ErrorNote error={error} /> : null}
    </>
  );
}

function Line({ of, onGone }: { of: ApiKey; onGone: () => void }) {
  const [asking, setAsking] = useState(false);
  const revoke = async () => {
    await ask(api.DELETE("/api/v1/keys/{key_id}", { params: { path: { key_id: of.id } } }));
    say(s.revoked(of.label));
    onGone();
  };
  return (
    <tr>
      <td>
        <strong className="run-name">{of.label}</strong>
      </td>
      <td className="dim">{s.kinds[of.kind] ?? of.kind}</td>
      <td className="dim">{of.entity && of.entity !== of.user ? `${of.user} · ${of.entity}` : of.user}</td>
      <td className="right dim">
        <Ago at={of.created_at} />
      </td>
      <td className="right dim">{of.expires_at ? <Ago at={of.expires_at} /> : s.never}</td>
      <td className="right">
        <Button kind="ghost" aria-label={s.revokeOf(of.label)} onClick={() => setAsking(true)}>
          {s.revoke}
        </Button>
        <Confirm
          open={asking}
          onClose={() => setAsking(false)}
          title={s.revokeTitle(of.label)}
          action={s.revoke}
          danger
          onConfirm={revoke}
        >
          <p>{s.revokeBody}</p>
        </Confirm>
      </td>
    </tr>
  );
}
