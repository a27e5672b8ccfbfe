import { CSPProvider } from "@base-ui/react/csp-provider";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ProblemError, passes } from "./api/client";
import "./design/tokens.css";
import "./design/base.css";
import "./design/controls.css";
import "./design/shell.css";
import "./design/runs.css";
import "./design/run.css";
import { followEvents } from "./api/follow";
import { router } from "./router";
import { filterFromSearch } from "./runs/filter";
import { beginRuns } from "./runs/useRunPages";
import { Toasts } from "./ui/Toasts";

const noticeSignOut = (error: unknown) => {
  if (error instanceof ProblemError && error.signedOut) void client.invalidateQueries({ queryKey: ["me"] });
};

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => query.queryKey[0] !== "me" && noticeSignOut(error),
  }),
  mutationCache: new MutationCache({ onError: noticeSignOut }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false, // the event stream tells what changed
      retry: (times, error) => times < 3 && passes(error),
    },
  },
});
followEvents(client);
if (location.pathname === "/runs" || location.pathname === "/")
  beginRuns(filterFromSearch(Object.fromEntries(new URLSearchParams(location.search))));

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        {/* The policy of the pages allows no style elements; base.css has what they would say. */}
        <CSPProvider disableStyleElements>
          <Toasts>
            <RouterProvider router={router} />
          </Toasts>
        </CSPProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
