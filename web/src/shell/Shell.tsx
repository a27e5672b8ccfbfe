/** The frame around every page: navigation, who is signed in, whether the page is live. */
import { Menu } from "@base-ui/react/menu";
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import {
  BookOpen,
  Boxes,
  Cpu,
  Keyboard,
  Layers,
  LogOut,
  Menu as MenuIcon,
  Monitor,
  Moon,
  PlaySquare,
  Rocket,
  Search,
  Server,
  Settings,
  Sun,
} from "lucide-react";
import { lazy, Suspense, useRef, useState, useSyncExternalStore } from "react";
import { api, ask, type Me } from "../api/client";
import { live } from "../api/live";
import { useLaunch } from "../launch/address";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { modKey, useKeys } from "../ui/keys";
import { complain } from "../ui/Toasts";
import { setTheme, type Theme, useTheme } from "../ui/theme";
import { Logo } from "./Logo";
import { Palette } from "./Palette";
import { Shortcuts } from "./Shortcuts";

const LaunchDrawer = lazy(() =>
  import("../launch/LaunchDrawer").then((module) => ({ default: module.LaunchDrawer })),
);
const PAGES = [
  { to: "/runs", label: m.nav.runs, icon: PlaySquare },
  { to: "/jobs", label: m.nav.jobs, icon: Boxes },
  { to: "/queues", label: m.nav.queues, icon: Layers },
  { to: "/agents", label: m.nav.agents, icon: Cpu },
  { to: "/cluster", label: m.nav.cluster, icon: Server },
] as const;

export function Shell({ me }: { me: Me }) {
  const navigate = useNavigate();
  const [open, setOpen] = useState<"palette" | "shortcuts" | null>(null);
  const launch = useLaunch();
  const launching = useRef(false); // once opened, the drawer stays loaded
  launching.current ||= launch.text !== null;
  useKeys({
    "mod+k": () => setOpen((now) => (now === "palette" ? null : "palette")),
    "?": () => setOpen("shortcuts"),
    l: () => launch.open({ from: "new" }),
    "g r": () => navigate({ to: "/runs" }),
    "g j": () => navigate({ to: "/jobs" }),
    "g q": () => navigate({ to: "/queues" }),
    "g a": () => navigate({ to: "/agents" }),
    "g c": () => navigate({ to: "/cluster" }),
  });
  return (
    <div className="shell">
      <a href="#content" className="skip">
        {m.app.skip}
      </a>
      <header className="sidebar">
        <Link to="/runs" className="brand" aria-label={m.app.name}>
          <Logo />
          <span>{m.app.name}</span>
        </Link>
        <button type="button" className="search-button" onClick={() => setOpen("palette")}>
          <Search size={14} aria-hidden="true" />
          <span>{m.nav.search}</span>
          <kbd>{modKey("K")}</kbd>
        </button>
        <button
          type="button"
          className="button primary launch-button"
          onClick={() => launch.open({ from: "new" })}
        >
          <Rocket size={14} aria-hidden="true" />
          <span>{m.launch.open}</span>
        </button>
        <nav aria-label={m.nav.main}>
          {PAGES.map(({ to, label, icon: Icon }) => (
            <Link key={to} to={to} className="nav-link" activeProps={{ className: "nav-link current" }}>
              <Icon size={16} strokeWidth={1.8} aria-hidden="true" />
              <span>{label}</span>
            </Link>
          ))}
        </nav>
        <div className="sidebar-end">
          <LinkState />
          <Account me={me} onShortcuts={() => setOpen("shortcuts")} />
        </div>
      </header>
      <main id="content" className="content" tabIndex={-1}>
        <Outlet />
      </main>
      <Palette
        open={open === "palette"}
        onClose={() => setOpen(null)}
        onShortcuts={() => setOpen("shortcuts")}
        onLaunch={() => launch.open({ from: "new" })}
      />
      {launching.current ? (
        <Suspense fallback={null}>
          <LaunchDrawer text={launch.text} me={me} onClose={launch.close} />
        </Suspense>
      ) : null}
      <Shortcuts open={open === "shortcuts"} onClose={() => setOpen(null)} />
    </div>
  );
}

function LinkState() {
  const link = useSyncExternalStore(live.watchLink, () => live.link);
  return (
    <span
      className={`link-state ${link}`}
      role="status"
      title={link === "lost" ? m.link.lostHint : m.link.liveHint}
    >
      <span className="dot" aria-hidden="true" />
      <span>{m.link[link]}</span>
    </span>
  );
}

const THEMES: { value: Theme; label: string; icon: typeof Sun }[] = [
  { value: "system", label: m.nav.theme.system, icon: Monitor },
  { value: "light", label: m.nav.theme.light, icon: Sun },
  { value: "dark", label: m.nav.theme.dark, icon: Moon },
];

function Account({ me, onShortcuts }: { me: Me; onShortcuts: () => void }) {
  const navigate = useNavigate();
  const chosen = useTheme();
  const client = useQueryClient();
  const signOut = async () => {
    try {
      await ask(api.DELETE("/api/v1/session"));
      client.clear();
      location.assign("/");
    } catch (error) {
      complain(error);
    }
  };
  return (
    <Menu.Root>
      <Menu.Trigger
        render={
          <Button
            kind="ghost"
            className="account"
            aria-label={m.nav.account(me.name)}
            icon={<MenuIcon size={15} />}
          />
        }
      >
        <span className="cut">{me.name}</span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner side="top" align="start" sideOffset={6} className="positioner">
          <Menu.Popup className="menu">
            <Menu.Group>
              <Menu.GroupLabel className="menu-label">{m.nav.theme.label}</Menu.GroupLabel>
              <Menu.RadioGroup value={chosen} onValueChange={setTheme}>
                {THEMES.map(({ value, label, icon: Icon }) => (
                  <Menu.RadioItem key={value} value={value} className="menu-item" closeOnClick>
                    <Icon size={14} aria-hidden="true" />
                    {label}
                    <Menu.RadioItemIndicator className="menu-check">✓</Menu.RadioItemIndicator>
                  </Menu.RadioItem>
                ))}
              </Menu.RadioGroup>
            </Menu.Group>
            <Menu.Separator className="menu-line" />
            <Menu.Item className="menu-item" onClick={() => navigate({ to: "/settings" })}>
              <Settings size={14} aria-hidden="true" />
              {m.settings.title}
            </Menu.Item>
            <Menu.Item className="menu-item" onClick={onShortcuts}>
              <Keyboard size={14} aria-hidden="true" />
              {m.nav.shortcuts}
              <kbd>?</kbd>
            </Menu.Item>
            <Menu.Item
              className="menu-item"
              render={
                <a href="/api/docs">
                  <BookOpen size={14} aria-hidden="true" />
                  {m.nav.apiDocs}
                </a>
              }
            />
            <Menu.Item className="menu-item" onClick={signOut}>
              <LogOut size={14} aria-hidden="true" />
              {m.nav.signOut}
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
