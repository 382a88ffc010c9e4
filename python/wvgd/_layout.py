"""The structs and functions of wvgd_model.h, wvgd.h and wvgd_tools.h, as ctypes has them.

tests/python/test_layout.py compares every field, size, offset, constant and number of arguments with the headers.
"""

from __future__ import annotations

import ctypes as c

P_DOUBLE = c.POINTER(c.c_double)
P_SIZE = c.POINTER(c.c_size_t)
P_TEXT = c.POINTER(c.c_char_p)
ARRAY = c.c_void_p  # numbers that Python lends, by their address

LOG_DENSITY = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p, c.c_void_p)

# Constants, by their names in the headers.
CONSTANTS = {
    "WVGD_OK": 0,
    "WVGD_E_ARGUMENT": 1,
    "WVGD_E_MEMORY": 2,
    "WVGD_E_MODEL": 3,
    "WVGD_E_NO_DRAWS": 4,
    "WVGD_E_STATE": 5,
    "WVGD_E_DATA": 6,
    "WVGD_E_NO_INPUT": 7,
    "WVGD_E_CREATE": 8,
    "WVGD_E_IO": 9,
    "WVGD_E_UNAVAILABLE": 10,
    "WVGD_DIFFERENCES": 64,
    "WVGD_CURVE_LINE": 0,
    "WVGD_CURVE_POSITIVE": 1,
    "WVGD_CURVE_BETWEEN": 2,
    "WVGD_STAGED": 0,
    "WVGD_JOINT": 1,
    "WVGD_RUNNING": 0,
    "WVGD_SUMMARY_TEXT": 0,
    "WVGD_SUMMARY_JSON": 1,
    "WVGD_RUN_JSON": 2,
    "WVGD_DRAWS_ENSEMBLE": 0,
    "WVGD_DRAWS_RESAMPLED": 1,
    "WVGD_DRAWS_WEIGHTED": 2,
}
RUN_JSON = CONSTANTS["WVGD_RUN_JSON"]
SUMMARY_TEXT = CONSTANTS["WVGD_SUMMARY_TEXT"]
ENSEMBLE = CONSTANTS["WVGD_DRAWS_ENSEMBLE"]
RESAMPLED = CONSTANTS["WVGD_DRAWS_RESAMPLED"]
WEIGHTED = CONSTANTS["WVGD_DRAWS_WEIGHTED"]


class wvgd_model(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("dim", c.c_size_t),
        ("log_density", c.c_void_p),
        ("self", c.c_void_p),
        ("has_gradient", c.c_bool),
        ("thread_safe", c.c_bool),
        ("names", P_TEXT),
        ("close", c.c_void_p),
        ("start", c.c_void_p),
        ("start_self", c.c_void_p),
        ("work", c.c_double),
        ("batched", c.c_bool),
    ]


class wvgd_error(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 2048)]


class wvgd_options(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("solver", c.c_int),
        ("particles", c.c_size_t),
        ("most_particles", c.c_size_t),
        ("components", c.c_size_t),
        ("family", c.c_int),
        ("rank", c.c_size_t),
        ("cells", c.c_int),
        ("cost", c.c_int),
        ("power", c.c_double),
        ("estimator", c.c_int),
        ("sampler", c.c_int),
        ("draws", c.c_size_t),
        ("init", c.c_int),
        ("bend", c.c_int),
        ("finish", c.c_int),
        ("starts", c.c_size_t),
        ("init_scale", c.c_double),
        ("max_iter", c.c_size_t),
        ("max_evaluations", c.c_size_t),
        ("max_seconds", c.c_double),
        ("tol", c.c_double),
        ("evidence_se", c.c_double),
        ("seed", c.c_uint64),
        ("min_batch", c.c_size_t),
        ("threads", c.c_size_t),
        ("metric", ARRAY),
        ("cost_function", c.c_void_p),
        ("cost_self", c.c_void_p),
        ("cost_batch", c.c_void_p),
    ]


class wvgd_option_info(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("values", c.c_char_p),
        ("initial", c.c_char_p),
        ("help", c.c_char_p),
        ("needs", c.c_char_p),
    ]


class wvgd_progress(c.Structure):
    _fields_ = [
        ("stage", c.c_char_p),
        ("iteration", c.c_size_t),
        ("max_iter", c.c_size_t),
        ("evaluations", c.c_size_t),
        ("seconds", c.c_double),
        ("pelbo", c.c_double),
        ("pelbo_se", c.c_double),
        ("ess", c.c_double),
        ("stop", c.c_int),
    ]


class wvgd_estimate(c.Structure):
    _fields_ = [("value", c.c_double), ("se", c.c_double)]


class wvgd_results(c.Structure):
    _fields_ = [
        ("N", c.c_size_t),
        ("D", c.c_size_t),
        ("rank", c.c_size_t),
        ("solver", c.c_int),
        ("stop", c.c_int),
        ("iterations", c.c_size_t),
        ("evaluations", c.c_size_t),
        ("widened", c.c_size_t),
        ("bad_points", c.c_size_t),
        ("zero_points", c.c_size_t),
        ("seconds", c.c_double),
        ("model_seconds", c.c_double),
        ("z", P_DOUBLE),
        ("beta", P_DOUBLE),
        ("beta_se", P_DOUBLE),
        ("weight", P_DOUBLE),
        ("log_Z", P_DOUBLE),
        ("elbo", P_DOUBLE),
        ("elbo_se", P_DOUBLE),
        ("cell_ess", P_DOUBLE),
        ("cell_pareto_k", P_DOUBLE),
        ("mu", P_DOUBLE),
        ("sd", P_DOUBLE),
        ("chol", P_DOUBLE),
        ("limit", P_DOUBLE),
        ("cell_cov", P_DOUBLE),
        ("pelbo", wvgd_estimate),
        ("pelbo_beta", wvgd_estimate),
        ("evidence", wvgd_estimate),
        ("distortion", wvgd_estimate),
        ("ess", c.c_double),
        ("closing_draws", c.c_size_t),
        ("pareto_k", c.c_double),
        ("pareto_k_limit", c.c_double),
        ("meanfield_gap", c.c_double),
        ("starts", c.c_size_t),
        ("modes", c.c_size_t),
        ("hit_once", c.c_size_t),
        ("mode", P_DOUBLE),
        ("expected_unseen", c.c_double),
        ("components", c.c_size_t),
        ("component_weight", P_DOUBLE),
        ("component_mu", P_DOUBLE),
        ("component_chol", P_DOUBLE),
        ("mean", P_DOUBLE),
        ("var", P_DOUBLE),
        ("mcse", P_DOUBLE),
        ("reliable", c.c_bool),
        ("reasons", c.c_size_t),
        ("reason", P_TEXT),
        ("warnings", c.c_size_t),
        ("warning", P_TEXT),
        ("gain", P_DOUBLE),
        ("gain_se", P_DOUBLE),
        ("loss", P_DOUBLE),
        ("loss_se", P_DOUBLE),
        ("sd_se", P_DOUBLE),
        ("tail_k", P_DOUBLE),
        ("tail_k_limit", c.c_double),
        ("walks", c.c_size_t),
        ("walks_outside", c.c_size_t),
        ("walks_evaluations", c.c_size_t),
        ("bent", c.c_bool),
        ("bent_components", c.c_bool),
        ("bend_arguments", c.c_size_t),
        ("bend_maps", c.c_size_t),
        ("bend_evaluations", c.c_size_t),
        ("finish", c.c_char_p),
        ("finish_chains", c.c_size_t),
        ("finish_trajectories", c.c_size_t),
        ("finish_states", c.c_size_t),
        ("finish_rungs", c.c_size_t),
        ("finish_evaluations", c.c_size_t),
        ("finish_acceptance", c.c_double),
        ("finish_jumps", c.c_double),
        ("finish_mean_se", c.c_double),
        ("finish_sd_se", c.c_double),
        ("finish_rhat", c.c_double),
        ("finish_drift", c.c_double),
        ("finish_tau", c.c_double),
        ("finish_missing", c.c_double),
    ]


class wvgd_bend_map(c.Structure):
    _fields_ = [
        ("D", c.c_size_t),
        ("arguments", c.c_size_t),
        ("layers", c.c_size_t),
        ("centre", P_DOUBLE),
        ("basis", P_DOUBLE),
        ("clip", c.c_double),
        ("log_scale", c.c_double),
    ]


class wvgd_bend_row(c.Structure):
    _fields_ = [
        ("parents", c.c_size_t),
        ("parent", P_SIZE),
        ("precision", P_DOUBLE * 2),
        ("location", P_DOUBLE * 2),
    ]


class wvgd_bend_affine(c.Structure):
    _fields_ = [
        ("parents", c.c_size_t),
        ("parent", P_SIZE),
        ("reach", c.c_double),
        ("slice", P_DOUBLE),
    ]


class wvgd_bend_line(c.Structure):
    _fields_ = [
        ("knots", c.c_size_t),
        ("low", c.c_double),
        ("high", c.c_double),
        ("value", P_DOUBLE),
        ("second", P_DOUBLE),
    ]


class wvgd_trace_row(c.Structure):
    _fields_ = [
        ("iteration", c.c_size_t),
        ("evaluations", c.c_size_t),
        ("seconds", c.c_double),
        ("pelbo", c.c_double),
        ("pelbo_se", c.c_double),
        ("distortion", c.c_double),
        ("ess", c.c_double),
        ("step", c.c_double),
    ]


class wvgd_description(c.Structure):
    _fields_ = [
        ("mean", ARRAY),
        ("var", ARRAY),
        ("mcse", ARRAY),
        ("sd_se", ARRAY),
        ("tail_k", ARRAY),
        ("quantile", ARRAY),
        ("quantile_se", ARRAY),
    ]


class wvgd_prediction(c.Structure):
    _fields_ = [(name, c.c_double) for name in ("mean", "sd", "q5", "q50", "q95", "lower", "upper")]


class wvgd_model_info(c.Structure):
    _fields_ = [("name", c.c_char_p), ("data", c.c_char_p), ("help", c.c_char_p)]


class wvgd_curve(c.Structure):
    _fields_ = [("kind", c.c_int), *[(name, c.c_double) for name in ("centre", "scale", "low", "high")]]


class wvgd_own_model(c.Structure):
    _fields_ = [("model", wvgd_model), ("curve", c.POINTER(wvgd_curve)), ("prior", c.c_char_p)]


STRUCTS = (
    wvgd_model,
    wvgd_error,
    wvgd_options,
    wvgd_option_info,
    wvgd_progress,
    wvgd_estimate,
    wvgd_results,
    wvgd_trace_row,
    wvgd_bend_map,
    wvgd_bend_row,
    wvgd_bend_affine,
    wvgd_bend_line,
    wvgd_description,
    wvgd_model_info,
    wvgd_prediction,
    wvgd_curve,
    wvgd_own_model,
)

P_ERROR = c.POINTER(wvgd_error)
P_OPTIONS = c.POINTER(wvgd_options)
PROGRESS = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(wvgd_progress))
NOTE = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)

# name: (result, arguments); int is a wvgd_status, unless the result is a number anyway.
CORE = {
    "wvgd_version": (c.c_char_p, []),
    "wvgd_options_init": (None, [P_OPTIONS]),
    "wvgd_options_set": (c.c_int, [P_OPTIONS, c.c_char_p, c.c_char_p, P_ERROR]),
    "wvgd_options_describe": (c.POINTER(wvgd_option_info), [c.c_size_t]),
    "wvgd_new": (c.c_void_p, [c.POINTER(wvgd_model), P_OPTIONS, ARRAY, P_ERROR]),
    "wvgd_free": (None, [c.c_void_p]),
    "wvgd_stop_name": (c.c_char_p, [c.c_int]),
    "wvgd_ask": (c.c_int, [c.c_void_p, P_SIZE, c.POINTER(P_DOUBLE), c.POINTER(c.c_bool), P_ERROR]),
    "wvgd_tell": (c.c_int, [c.c_void_p, ARRAY, ARRAY, P_ERROR]),
    "wvgd_stop_now": (None, [c.c_void_p]),
    "wvgd_get_progress": (None, [c.c_void_p, c.POINTER(wvgd_progress)]),
    "wvgd_get_results": (None, [c.c_void_p, c.POINTER(wvgd_results)]),
    "wvgd_get_bend": (c.c_bool, [c.c_void_p, c.POINTER(wvgd_bend_map)]),
    "wvgd_get_bend_line": (c.c_bool, [c.c_void_p, c.c_size_t, c.POINTER(wvgd_bend_line)]),
    "wvgd_get_bend_affine": (c.c_bool, [c.c_void_p, c.POINTER(wvgd_bend_affine)]),
    "wvgd_get_bend_row": (c.c_bool, [c.c_void_p, c.c_size_t, c.c_size_t, c.POINTER(wvgd_bend_row)]),
    "wvgd_bend_turn": (P_DOUBLE, [c.c_void_p, c.c_size_t]),
    "wvgd_component_cov": (c.c_int, [c.c_void_p, c.c_size_t, ARRAY, P_ERROR]),
    "wvgd_trace": (c.POINTER(wvgd_trace_row), [c.c_void_p, P_SIZE]),
    "wvgd_cell": (c.c_int, [c.c_void_p, c.c_size_t, ARRAY, ARRAY, P_ERROR]),
    "wvgd_mode": (c.c_int, [c.c_void_p, c.c_size_t, ARRAY, ARRAY, P_ERROR]),
    "wvgd_log_q": (c.c_int, [c.c_void_p, c.c_size_t, ARRAY, ARRAY, P_ERROR]),
    "wvgd_sample": (c.c_int, [c.c_void_p, c.c_uint64, c.c_size_t, ARRAY, ARRAY, P_ERROR]),
    "wvgd_resample": (c.c_int, [c.c_void_p, c.c_uint64, c.c_size_t, ARRAY, ARRAY, P_ERROR]),
    "wvgd_draws": (
        c.c_int,
        [c.c_void_p, P_SIZE]
        + [c.POINTER(P_DOUBLE)] * 3
        + [c.POINTER(c.POINTER(c.c_uint32)), P_ERROR],
    ),
    "wvgd_expect": (c.c_int, [c.c_void_p, c.c_size_t] + [ARRAY] * 4 + [P_ERROR]),
    "wvgd_describe": (
        c.c_int,
        [c.c_void_p, c.c_size_t, ARRAY, c.c_size_t, ARRAY, c.POINTER(wvgd_description), P_ERROR],
    ),
    "wvgd_save_size": (c.c_size_t, [c.c_void_p]),
    "wvgd_save": (c.c_int, [c.c_void_p, c.c_void_p, c.c_size_t, P_ERROR]),
    "wvgd_restore": (c.c_int, [c.c_void_p, c.c_void_p, c.c_size_t, P_ERROR]),
}

TOOLS = {
    "wvgd_request_new": (c.c_void_p, []),
    "wvgd_request_free": (None, [c.c_void_p]),
    "wvgd_request_set": (c.c_int, [c.c_void_p, c.c_char_p, c.c_char_p, P_ERROR]),
    "wvgd_request_command": (c.c_int, [c.c_void_p, c.c_char_p, P_ERROR]),
    "wvgd_request_own": (c.c_int, [c.c_void_p, c.POINTER(wvgd_own_model), P_ERROR]),
    "wvgd_request_notes": (None, [c.c_void_p, NOTE, c.c_void_p]),
    "wvgd_model_describe": (c.POINTER(wvgd_model_info), [c.c_size_t]),
    "wvgd_open": (c.c_void_p, [c.c_void_p, P_ERROR]),
    "wvgd_resume": (c.c_void_p, [c.c_char_p, c.c_void_p, P_ERROR]),
    "wvgd_load": (c.c_void_p, [c.c_char_p, c.c_void_p, P_ERROR]),
    "wvgd_session_close": (None, [c.c_void_p]),
    "wvgd_session_fit": (c.c_void_p, [c.c_void_p]),
    "wvgd_session_run": (c.c_int, [c.c_void_p, PROGRESS, c.c_void_p, P_ERROR]),
    "wvgd_session_write": (c.c_int, [c.c_void_p, c.c_char_p, c.c_bool, P_ERROR]),
    "wvgd_session_summary": (c.c_int, [c.c_void_p, c.c_int, c.c_size_t, c.POINTER(c.c_char_p), P_ERROR]),
    "wvgd_session_option": (c.c_char_p, [c.c_void_p, c.c_char_p]),
    "wvgd_session_names": (P_TEXT, [c.c_void_p, P_SIZE]),
    "wvgd_session_draws": (
        c.c_int,
        [c.c_void_p, c.c_int, c.c_uint64, c.c_size_t, ARRAY, ARRAY, P_ERROR],
    ),
    "wvgd_session_values": (c.c_int, [c.c_void_p, c.c_size_t, ARRAY, ARRAY, P_ERROR]),
    "wvgd_session_predict": (
        c.c_int,
        [c.c_void_p, c.c_char_p, c.c_size_t, c.POINTER(c.POINTER(wvgd_prediction)), P_SIZE, P_ERROR],
    ),
    "wvgd_compare_sessions": (c.c_void_p, [c.c_size_t, c.POINTER(c.c_void_p), P_TEXT, P_ERROR]),
    "wvgd_comparison_free": (None, [c.c_void_p]),
    "wvgd_comparison_notes": (P_TEXT, [c.c_void_p, P_SIZE]),
    "wvgd_comparison_text": (c.c_int, [c.c_void_p, c.c_bool, P_TEXT, P_ERROR]),
}
