import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Beside each file its gzipped twin: the server compresses nothing while it serves. */
function gzipped(): Plugin {
  return {
    name: "gzipped",
    apply: "build",
    generateBundle(_, bundle) {
      for (const [name, item] of Object.entries(bundle)) {
        const source = item.type === "chunk" ? item.code : item.source;
        const zipped = gzipSync(source, { level: 9 });
        if (zipped.length < source.length) {
          this.emitFile({ type: "asset", fileName: `${name}.gz`, source: zipped });
        }
      }
    },
  };
}

const server = process.env.MUSTER_URL ?? "http://127.0.0.1:8700";

export default defineConfig({
  plugins: [react(), gzipped()],
  build: {
    outDir: "../src/muster/server/web",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // the policy of the pages allows no inline anything
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } } },
  test: { include: ["src/**/*.test.ts"] },
});
