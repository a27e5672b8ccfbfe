import { useQuery } from "@tanstack/react-query";
import { api, ask, type Me } from "../api/client";

/** Who is signed in. On the machine of `muster up`, that is its user, without any key. */
export const useMe = () =>
  useQuery({ queryKey: ["me"], queryFn: () => ask(api.GET("/api/v1/me")), staleTime: 60_000, retry: false });

const LAUNCH = new Set(["admin", "member"]);

export const mayManage = (me: Me | undefined, entity: string): boolean =>
  me !== undefined && (me.server_admin || me.roles[entity] === "admin");

export const mayLaunch = (me: Me | undefined, entity: string): boolean =>
  me !== undefined && (me.server_admin || LAUNCH.has(me.roles[entity] ?? ""));
