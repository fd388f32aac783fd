// A library that is no policy.
extern "C" int megatwin_policy_v0() { return 0; }
