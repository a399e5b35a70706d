import { createApp } from "vue";
import { createRouter, createWebHistory } from "vue-router";
import App from "./App.vue";
import Home from "./Home.vue";

const routes = [
  { path: "/", component: Home },
  { path: "/list/", component: () => import("./List.vue") },
  { path: "/about/", component: () => import("./About.vue") },
  { path: "/:rest(.*)", component: { render: () => "Not found" } },
];
const router = createRouter({ history: createWebHistory(), routes });
createApp(App).use(router).mount("#app");
