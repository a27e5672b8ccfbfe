import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { Logo } from "../shell/Logo";
import { ErrorNote } from "../ui/Notes";

export function SignIn() {
  const client = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget).get("key") ?? "").trim();
    setBusy(true);
    setError(null);
    try {
      client.setQueryData(["me"], await ask(api.POST("/api/v1/session", { body: { key } })));
      await client.invalidateQueries();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <Logo size={34} />
        <h1>{m.signIn.title}</h1>
        <p className="dim">{m.signIn.lead}</p>
        <label>
          {m.signIn.key}
          <input className="input" name="key" type="password" autoComplete="current-password" required />
        </label>
        <button type="submit" className="button primary" disabled={busy}>
          {m.signIn.button}
        </button>
        {error ? <ErrorNote error={error} /> : null}
        <p className="faint">
          {m.signIn.help} <code>{m.signIn.command}</code>
        </p>
      </form>
    </main>
  );
}
