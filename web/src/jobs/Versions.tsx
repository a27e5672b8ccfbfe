import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus, Rocket, X } from "lucide-react";
import { useState } from "react";
import { api, ask, type JobVersion } from "../api/client";
import { useLaunch } from "../launch/address";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Ago } from "../ui/Time";
import { complain, say } from "../ui/Toasts";
import { Question } from "./Question";
import type { Place } from "./queries";

const j = m.jobs;

/** The versions of a job, newest first, with the words that stand for them. */
export function Versions({
  versions,
  shown,
  place,
  mine,
}: {
  versions: readonly JobVersion[];
  shown: JobVersion | undefined;
  place: Place;
  mine: boolean;
}) {
  return (
    <section className="block" aria-label={j.versions}>
      <div className="block-head">
        <h2>{j.versions}</h2>
      </div>
      <div className="scroll-x">
        <table className="table" aria-label={j.versionsLabel}>
          <thead>
            <tr>
              <th scope="col">{m.launch.version}</th>
              <th scope="col">{j.aliases}</th>
              <th scope="col">{j.by}</th>
              <th scope="col" className="right">
                {j.created}
              </th>
              <td />
            </tr>
          </thead>
          <tbody>
            {versions.map((version) => (
              <Line
                key={version.version}
                version={version}
                current={version === shown}
                place={place}
                mine={mine}
              />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Line({
  version,
  current,
  place,
  mine,
}: {
  version: JobVersion;
  current: boolean;
  place: Place;
  mine: boolean;
}) {
  const launch = useLaunch();
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const word = j.version(version.version);
  const named = `${version.job}:${word}`;
  const query = { entity: place.entity, project: place.project };
  const reload = () => client.invalidateQueries({ queryKey: ["jobs"] });
  const add = async (alias: string) => {
    const params = { path: { name: place.job, alias }, query };
    await ask(api.PUT("/api/v1/jobs/{name}/aliases/{alias}", { params, body: { version: word } }));
    await reload();
    say(j.aliasSet(alias, word));
  };
  const remove = async (alias: string) => {
    try {
      const params = { path: { name: place.job, alias }, query };
      await ask(api.DELETE("/api/v1/jobs/{name}/aliases/{alias}", { params }));
      await reload();
      say(j.aliasRemoved(alias));
    } catch (error) {
      complain(error);
    }
  };
  return (
    <tr className={current ? "chosen" : ""} aria-current={current ? "true" : undefined}>
      <td>
        <Link
          to="/$entity/$project/jobs/$job"
          params={{ ...query, job: place.job }}
          search={{ version: word }}
          replace
          className="run-name"
          aria-label={j.show(named)}
        >
          {word}
        </Link>
      </td>
      <td>
        <span className="tags">
          {version.aliases.map((alias) => (
            <span key={alias} className="tag">
              {alias}
              {mine && alias !== "latest" ? (
                <button type="button" aria-label={j.removeAlias(alias)} onClick={() => void remove(alias)}>
                  <X size={11} />
                </button>
              ) : null}
            </span>
          ))}
          {mine ? (
            <Button
              kind="ghost"
              className="tag-add"
              icon={<Plus size={13} />}
              aria-label={`${j.addAlias}: ${word}`}
              title={j.addAlias}
              onClick={() => setAsking(true)}
            />
          ) : null}
        </span>
        {asking ? (
          <Question
            title={j.aliasTitle(named)}
            hint={j.aliasHint}
            label={j.alias}
            initial=""
            action={j.addAlias}
            onClose={() => setAsking(false)}
            onAnswer={add}
          />
        ) : null}
      </td>
      <td className="dim">{version.created_by}</td>
      <td className="right dim">
        <Ago at={version.created_at} />
      </td>
      <td className="right">
        {mine ? (
          <Button
            kind="ghost"
            icon={<Rocket size={14} />}
            aria-label={j.launchOf(named)}
            title={j.launchOf(named)}
            onClick={() => launch.open({ from: "job", ...query, job: place.job, version: word })}
          />
        ) : null}
      </td>
    </tr>
  );
}
