import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Beside each file its gzipped twin: the server compresses nothing while it serves. */
function gzipped(): Plugin {
  return {
    name: "gzipped",
    apply: "build",
    async writeBundle({ dir = "" }, bundle) {
      for (const name of Object.keys(bundle)) {
        const source = await readFile(join(dir, name)); // what was written, after all other plugins
        const zipped = gzipSync(source, { level: 9 });
        if (zipped.length < source.length) await writeFile(join(dir, `${name}.gz`), zipped);
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
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } } },
  test: { include: ["src/**/*.test.ts"] },
});
