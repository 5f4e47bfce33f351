import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  define: { 'process.env.NODE_ENV': '"production"' },
  esbuild: { jsx: 'automatic' },
  build: { chunkSizeWarningLimit: 20000, sourcemap: false, modulePreload: false },
});
