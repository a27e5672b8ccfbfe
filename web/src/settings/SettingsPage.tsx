import "../design/settings.css";
import { m } from "../messages";
import { useMe } from "../session/me";
import { Skeleton } from "../ui/Notes";
import { Keys, useKeys } from "./Keys";
import { Teams, useEntities } from "./Teams";

export function SettingsPage() {
  const me = useMe();
  const loading = [useKeys(), useEntities()].some((one) => one.isPending); // each would push the other down
  return (
    <div className="page">
      <div className="page-head">
        <h1>{m.settings.title}</h1>
        {me.data ? <span className="faint">{m.settings.version(me.data.server_version)}</span> : null}
      </div>
      {me.data && !loading ? (
        <div className="settings">
          <Keys me={me.data} />
          <Teams me={me.data} />
        </div>
      ) : (
        <Skeleton />
      )}
    </div>
  );
}
