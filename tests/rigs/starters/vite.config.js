import react from "@vitejs/plugin-react";
import vue from "@vitejs/plugin-vue";

const { STARTER } = process.env;

export default {
  root: STARTER,
  plugins: [STARTER === "vue" ? vue() : react()],
  publicDir: "../public",
  build: {
    // The packages are a chunk of their own, which the document preloads.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: "packages", test: /node_modules/ }] } },
    },
  },
};
