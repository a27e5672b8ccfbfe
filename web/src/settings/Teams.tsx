/** Users and teams: who belongs to them, and what each may do. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { api, ask, type Entity, type Me, type Role } from "../api/client";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { Command } from "../ui/Copy";
import { ErrorNote } from "../ui/Notes";
import { complain, say } from "../ui/Toasts";

const s = m.settings;
const ROLES: readonly Role[] = ["admin", "member", "viewer"];

export const useEntities = () =>
  useQuery({ queryKey: ["entities"], queryFn: () => ask(api.GET("/api/v1/entities")) });

export function Teams({ me }: { me: Me }) {
  const client = useQueryClient();
  const found = useEntities();
  const reload = () => {
    void client.invalidateQueries({ queryKey: ["me"] });
    return client.invalidateQueries({ queryKey: ["entities"] });
  };
  const makeTeam = async (name: string) => {
    await ask(api.POST("/api/v1/entities", { body: { name } }));
    await reload();
    say(s.teamMade(name));
  };
  return (
    <section aria-label={s.teams}>
      <h2>{s.teams}</h2>
      <p className="dim">{s.teamsHint}</p>
      <dl className="roles dim">
        {ROLES.map((role) => (
          <div key={role}>
            <dt>{s.roles[role]}</dt>
            <dd>{s.roleHints[role]}</dd>
          </div>
        ))}
      </dl>
      {found.error ? <ErrorNote error={found.error} onRetry={() => void found.refetch()} /> : null}
      {(found.data?.items ?? []).map((entity) => (
        <Team key={entity.name} entity={entity} me={me} onChange={reload} />
      ))}
      <NameForm label={s.newTeam} action={s.makeTeam} onName={makeTeam} />
      {me.server_admin ? <NewUser onChange={reload} /> : null}
    </section>
  );
}

function NewUser({ onChange }: { onChange: () => Promise<void> }) {
  const [made, setMade] = useState<{ user: string; key: string } | null>(null);
  const make = async (name: string) => {
    const key = await ask(api.POST("/api/v1/users", { body: { name, admin: false } }));
    setMade({ user: name, key: key.key });
    await onChange();
  };
  return (
    <>
      <NameForm label={s.newUser} action={s.makeUser} onName={make} />
      {made ? (
        <div className="made" role="status">
          <strong>{s.userMade(made.user)}</strong>
          <Command text={made.key} />
        </div>
      ) : null}
    </>
  );
}

/** One word and a button; what the server says against it stands beneath. */
function NameForm({
  label,
  action,
  onName,
}: {
  label: string;
  action: string;
  onName: (name: string) => Promise<void>;
}) {
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    try {
      await onName(String(new FormData(form).get("name")).trim());
      setError(null);
      form.reset();
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <>
      <form className="line-form" onSubmit={submit}>
        <label>
          {label}
          <input
            className="input"
            name="name"
            required
            maxLength={64}
            spellCheck={false}
            autoComplete="off"
          />
        </label>
        <button type="submit" className="button plain">
          <Plus size={14} aria-hidden="true" />
          {action}
        </button>
      </form>
      {error ? <ErrorNote error={error} /> : null}
    </>
  );
}

function Team({ entity, me, onChange }: { entity: Entity; me: Me; onChange: () => Promise<void> }) {
  const manages = me.server_admin || me.roles[entity.name] === "admin";
  const path = (user: string) => ({ path: { name: entity.name, user } });
  const set = async (user: string, role: Role) => {
    await ask(api.PUT("/api/v1/entities/{name}/members/{user}", { params: path(user), body: { role } }));
    await onChange();
    say(s.roleSet(user, s.roles[role] ?? role));
  };
  return (
    <div className="team">
      <h3>
        {entity.name} <span className="faint">{s.entityKinds[entity.kind]}</span>
      </h3>
      <table className="table" aria-label={s.membersOf(entity.name)}>
        <thead className="hidden-label">
          <tr>
            <th scope="col">{s.user}</th>
            <th scope="col">{s.role}</th>
          </tr>
        </thead>
        <tbody>
          {Object.entries(entity.members).map(([user, role]) => (
            <Member
              key={user}
              user={user}
              role={role as Role}
              team={entity.name}
              manages={manages && !(entity.kind === "user" && user === entity.name)}
              onRole={(next) => set(user, next).catch(complain)}
              onRemove={async () => {
                await ask(api.DELETE("/api/v1/entities/{name}/members/{user}", { params: path(user) }));
                await onChange();
              }}
            />
          ))}
        </tbody>
      </table>
      {manages ? (
        <NameForm label={s.addTo(entity.name)} action={s.add} onName={(name) => set(name, "member")} />
      ) : null}
    </div>
  );
}

function Member({
  user,
  role,
  team,
  manages,
  onRole,
  onRemove,
}: {
  user: string;
  role: Role;
  team: string;
  manages: boolean;
  onRole: (role: Role) => Promise<void>;
  onRemove: () => Promise<void>;
}) {
  const [asking, setAsking] = useState(false);
  return (
    <tr>
      <td>{user}</td>
      <td className="role-cell">
        {manages ? (
          <select
            className="input"
            aria-label={s.roleOf(user)}
            value={role}
            onChange={(event) => void onRole(event.target.value as Role)}
          >
            {ROLES.map((one) => (
              <option key={one} value={one}>
                {s.roles[one]}
              </option>
            ))}
          </select>
        ) : (
          <span className="dim">{s.roles[role]}</span>
        )}
        {manages ? (
          <Button
            kind="ghost"
            icon={<X size={14} />}
            aria-label={s.removeMember(user, team)}
            onClick={() => setAsking(true)}
          />
        ) : null}
        <Confirm
          open={asking}
          onClose={() => setAsking(false)}
          title={s.removeTitle(user, team)}
          action={s.remove}
          danger
          onConfirm={onRemove}
        >
          <p>{s.removeBody}</p>
        </Confirm>
      </td>
    </tr>
  );
}
