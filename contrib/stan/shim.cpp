// shim.cpp - BridgeStan's C interface (2.x) around a model of Stan 2.21, as Debian's r-cran-rstan and
// r-cran-stanheaders have it.
//
// Compiled once; linked with the C++ that stanc writes for a program, which ends in new_model(). Data are read with
// Jansson, in the JSON that CmdStan reads: an object, one member a variable; arrays are row-major there and
// column-major for Stan.
//
// Threads: Stan's autodiff tape is thread-local, and only the thread that loads an object gets one by itself. Each
// function that evaluates makes one for the thread it runs in.
#include <stan/io/var_context.hpp>
#include <stan/math.hpp>
#include <stan/model/model_base.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>

#include <jansson.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#if !defined STAN_THREADS
#error "the shim promises that models are thread safe: compile it and the model with -DSTAN_THREADS"
#endif

#define BS_PUBLIC __attribute__((visibility("default")))

// What stanc has written.
stan::model::model_base &new_model(stan::io::var_context &data, unsigned int seed, std::ostream *messages);

// ---- data -----------------------------------------------------------------------------------------------------------
namespace {

class Json { // owns a value of Jansson's
public:
    explicit Json(json_t *value) : value_(value)
    {}
    ~Json()
    {
        json_decref(value_);
    }
    Json(const Json &) = delete;
    Json &operator=(const Json &) = delete;
    json_t *get() const
    {
        return value_;
    }

private:
    json_t *value_;
};

[[noreturn]] void refuse(const std::string &name, const std::string &found, const std::string &expected)
{
    throw std::runtime_error("variable " + name + ": found " + found + ", expected " + expected);
}

// A text that stands for a number: "NaN", "Inf", "-Infinity" ... in any case.
bool read_special(const std::string &text, double *value)
{
    std::string lower;
    for (char c : text)
        lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    bool minus = !lower.empty() && lower[0] == '-';
    if (!lower.empty() && (minus || lower[0] == '+'))
        lower.erase(0, 1);
    if (lower == "nan")
        *value = std::numeric_limits<double>::quiet_NaN();
    else if (lower == "inf" || lower == "infinity")
        *value = minus ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    else
        return false;
    return true;
}

std::string describe(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object {...}";
    case JSON_ARRAY: return "an array of " + std::to_string(json_array_size(value));
    case JSON_STRING: return "the text \"" + std::string(json_string_value(value)).substr(0, 40) + "\"";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    default: {
        std::ostringstream out;
        out << json_number_value(value);
        return out.str();
    }
    }
}

struct Variable {
    std::vector<size_t> dims;
    std::vector<double> reals; // column-major
    std::vector<int> ints;     // the same, if all are whole
    bool whole = true;
};

// Fills a variable from nested arrays.
class VariableReader {
public:
    VariableReader(const std::string &name, const json_t *value, Variable *out) : name_(name), out_(out)
    {
        size_t size = 1;
        for (const json_t *v = value; json_is_array(v); v = json_array_get(v, 0)) {
            stride_.push_back(size);
            out->dims.push_back(json_array_size(v));
            size *= json_array_size(v);
        }
        out->reals.resize(size);
        out->ints.resize(size);
        fill(value, 0, 0);
        if (!out->whole)
            out->ints.clear();
    }

private:
    void fill(const json_t *value, size_t depth, size_t at)
    {
        const std::vector<size_t> &dims = out_->dims;
        if (depth == dims.size()) {
            put(value, at);
            return;
        }
        if (!json_is_array(value) || json_array_size(value) != dims[depth])
            refuse(name_, describe(value),
                   "an array of " + std::to_string(dims[depth]) + " as beside it: all rows must have the same length");
        for (size_t i = 0; i < dims[depth]; i++)
            fill(json_array_get(value, i), depth + 1, at + i * stride_[depth]);
    }

    void put(const json_t *value, size_t at)
    {
        double real = 0;
        if (json_is_integer(value)) {
            json_int_t n = json_integer_value(value);
            real = static_cast<double>(n);
            if (n >= std::numeric_limits<int>::min() && n <= std::numeric_limits<int>::max())
                out_->ints[at] = static_cast<int>(n);
            else
                out_->whole = false;
        } else if (json_is_real(value) || (json_is_string(value) && read_special(json_string_value(value), &real))) {
            real = json_is_real(value) ? json_real_value(value) : real;
            out_->whole = false;
        } else {
            refuse(name_, describe(value), "a number, or arrays of numbers");
        }
        out_->reals[at] = real;
    }

    const std::string &name_;
    Variable *out_;
    std::vector<size_t> stride_;
};

// JSON has no NaN, no infinity and no whole number beyond 64 bits, but CmdStan takes them: the first two become texts,
// the last gets a fraction.
std::string spell_out(const char *text)
{
    std::string out;
    for (const char *at = text; *at;) {
        if (*at == '"') {
            const char *end = at + 1;
            while (*end && *end != '"')
                end += end[0] == '\\' && end[1] ? 2 : 1;
            end += *end == '"';
            out.append(at, end);
            at = end;
            continue;
        }
        size_t minus = *at == '-', length = std::strspn(at + minus, "0123456789"), letters = 0;
        while (std::isalpha(static_cast<unsigned char>(at[minus + letters])))
            letters++;
        std::string word(at, minus + letters);
        double value;
        if (letters && read_special(word, &value)) {
            out += '"' + word + '"';
            at += minus + letters;
        } else if (letters) {
            out += word;
            at += minus + letters;
        } else if (length) {
            size_t whole = minus + length, rest = std::strspn(at + whole, ".eE+-0123456789");
            out.append(at, whole + rest);
            if (!rest && length > 18)
                out += ".0";
            at += whole + rest;
        } else {
            out += *at++;
        }
    }
    return out;
}

json_t *parse(const char *text)
{
    json_error_t error;
    if (json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &error))
        return value;
    json_error_t again;
    if (json_t *value = json_loads(spell_out(text).c_str(), JSON_REJECT_DUPLICATES, &again))
        return value;
    throw std::runtime_error("the data are not JSON: line " + std::to_string(error.line) + ", column " +
                             std::to_string(error.column) + ": " + error.text);
}

class JsonContext : public stan::io::var_context {
public:
    explicit JsonContext(const char *text)
    {
        if (!text || !*text)
            return;
        Json root(parse(text));
        if (!json_is_object(root.get()))
            throw std::runtime_error("the data are " + describe(root.get()) +
                                     ", expected an object {\"name\": value, ...}");
        const char *name;
        json_t *value;
        json_object_foreach(root.get(), name, value)
            VariableReader(name, value, &variables_[name]);
    }
    bool contains_r(const std::string &name) const override
    {
        return variables_.count(name) > 0;
    }
    bool contains_i(const std::string &name) const override
    {
        return contains_r(name) && variables_.at(name).whole;
    }
    std::vector<double> vals_r(const std::string &name) const override
    {
        return find(name).reals;
    }
    std::vector<int> vals_i(const std::string &name) const override
    {
        return find(name).ints;
    }
    std::vector<size_t> dims_r(const std::string &name) const override
    {
        return find(name).dims;
    }
    std::vector<size_t> dims_i(const std::string &name) const override
    {
        return find(name).dims;
    }
    void names_r(std::vector<std::string> &names) const override
    {
        list(false, &names);
    }
    void names_i(std::vector<std::string> &names) const override
    {
        list(true, &names);
    }

private:
    const Variable &find(const std::string &name) const
    {
        static const Variable none;
        auto at = variables_.find(name);
        return at == variables_.end() ? none : at->second;
    }
    void list(bool whole, std::vector<std::string> *names) const
    {
        names->clear();
        for (const auto &v : variables_)
            if (v.second.whole == whole)
                names->push_back(v.first);
    }
    std::map<std::string, Variable> variables_;
};

// The text of the data: the argument, or the file that it names.
std::string read_data(const char *data)
{
    std::string text = data ? data : "";
    static const std::string ending = ".json";
    if (text.size() < ending.size() || text.compare(text.size() - ending.size(), ending.size(), ending) != 0)
        return text;
    std::ifstream file(text);
    std::ostringstream content;
    if (!file || !(content << file.rdbuf()))
        throw std::runtime_error("cannot read the data file " + text);
    return content.str();
}

// ---- evaluation -----------------------------------------------------------------------------------------------------
typedef void (*PrintCallback)(const char *, size_t);
std::atomic<PrintCallback> print_callback{nullptr};

// One call into a model: a tape for this thread, cleared afterwards whatever happens, and what the program prints
// passed on.
class Call {
public:
    Call()
    {
        static thread_local stan::math::ChainableStack tape;
        (void)tape;
    }
    ~Call()
    {
        while (!stan::math::empty_nested())
            stan::math::recover_memory_nested();
        stan::math::recover_memory();
        std::string text = stream().str();
        if (text.empty())
            return;
        stream().str("");
        if (PrintCallback print = print_callback.load())
            print(text.data(), text.size());
        else
            std::cout << text << std::flush;
    }
    std::ostream *out()
    {
        return &stream();
    }

private:
    static std::ostringstream &stream()
    {
        static thread_local std::ostringstream text;
        return text;
    }
};

// Runs f; an exception becomes a message, and the result -1.
template <typename F> int guarded(char **message, F f)
{
    std::string text;
    try {
        f();
        return 0;
    } catch (const std::exception &e) {
        text = e.what();
    } catch (...) {
        text = "an exception of an unknown kind";
    }
    if (message)
        *message = strdup(text.c_str());
    return -1;
}

std::string join(const std::vector<std::string> &names)
{
    std::string text;
    for (const std::string &name : names)
        text += (text.empty() ? "" : ",") + name;
    return text;
}

} // namespace

struct bs_model {
    std::unique_ptr<stan::model::model_base> model;
    std::string name, info, unc_names, names[2][2]; // names[transformed][generated]
    int num[2][2], unc_num;
};

struct bs_rng {
    boost::ecuyer1988 generator;
};

namespace {

void fill_names(bs_model *m)
{
    std::vector<std::string> names;
    for (int tp = 0; tp < 2; tp++)
        for (int gq = 0; gq < 2; gq++) {
            names.clear();
            m->model->constrained_param_names(names, tp, gq);
            m->names[tp][gq] = join(names);
            m->num[tp][gq] = static_cast<int>(names.size());
        }
    names.clear();
    m->model->unconstrained_param_names(names, false, false);
    m->unc_names = join(names);
    m->unc_num = static_cast<int>(names.size());
    m->name = m->model->model_name();
    m->info = "BridgeStan's interface 2.5, written by wvgd\nStan version: " + stan::MAJOR_VERSION + "." +
              stan::MINOR_VERSION + "." + stan::PATCH_VERSION +
              "\nStan C++ Defines:\n\tSTAN_THREADS=true\n\tSTAN_MPI=false\n\tSTAN_OPENCL=false\n";
}

template <typename T>
T evaluate(const stan::model::model_base &model, bool propto, bool jacobian, std::vector<T> &z, std::ostream *out)
{
    std::vector<int> none;
    if (propto)
        return jacobian ? model.log_prob_propto_jacobian(z, none, out) : model.log_prob_propto(z, none, out);
    return jacobian ? model.log_prob_jacobian(z, none, out) : model.log_prob(z, none, out);
}

// grad: NULL if it is not wanted.
void differentiate(const bs_model *m, bool propto, bool jacobian, const double *z, double *log_p, double *grad)
{
    Call call;
    std::vector<stan::math::var> at(z, z + m->unc_num);
    stan::math::var value = evaluate(*m->model, propto, jacobian, at, call.out());
    *log_p = value.val();
    if (!grad)
        return;
    value.grad();
    for (int i = 0; i < m->unc_num; i++)
        grad[i] = at[i].adj();
}

} // namespace

// ---- the interface --------------------------------------------------------------------------------------------------
extern "C" {

extern BS_PUBLIC const int bs_major_version, bs_minor_version, bs_patch_version;
const int bs_major_version = 2, bs_minor_version = 5, bs_patch_version = 0;

BS_PUBLIC void bs_model_destruct(bs_model *m)
{
    delete m;
}

BS_PUBLIC void bs_free_error_msg(char *message)
{
    std::free(message);
}

BS_PUBLIC bs_model *bs_model_construct(const char *data, unsigned int seed, char **message)
{
    std::unique_ptr<bs_model> m;
    int failed = guarded(message, [&] {
        Call call;
        JsonContext context(read_data(data).c_str());
        m.reset(new bs_model());
        m->model.reset(&new_model(context, seed, call.out()));
        fill_names(m.get());
    });
    return failed ? nullptr : m.release();
}

BS_PUBLIC const char *bs_name(const bs_model *m)
{
    return m->name.c_str();
}

BS_PUBLIC const char *bs_model_info(const bs_model *m)
{
    return m->info.c_str();
}

BS_PUBLIC const char *bs_param_names(const bs_model *m, bool tp, bool gq)
{
    return m->names[tp][gq].c_str();
}

BS_PUBLIC const char *bs_param_unc_names(const bs_model *m)
{
    return m->unc_names.c_str();
}

BS_PUBLIC int bs_param_num(const bs_model *m, bool tp, bool gq)
{
    return m->num[tp][gq];
}

BS_PUBLIC int bs_param_unc_num(const bs_model *m)
{
    return m->unc_num;
}

BS_PUBLIC int bs_param_constrain(const bs_model *m, bool tp, bool gq, const double *z, double *values, bs_rng *rng,
                                 char **message)
{
    return guarded(message, [&] {
        if (gq && !rng)
            throw std::invalid_argument("generated quantities need a random number generator, but there is none");
        Call call;
        boost::ecuyer1988 unused(1);
        std::vector<double> at(z, z + m->unc_num), out;
        std::vector<int> none;
        m->model->write_array(rng ? rng->generator : unused, at, none, out, tp, gq, call.out());
        if (out.size() != static_cast<size_t>(m->num[tp][gq]))
            throw std::runtime_error("the program has written " + std::to_string(out.size()) + " values for " +
                                     std::to_string(m->num[tp][gq]) + " names");
        std::copy(out.begin(), out.end(), values);
    });
}

BS_PUBLIC int bs_log_density(const bs_model *m, bool propto, bool jacobian, const double *z, double *log_p,
                             char **message)
{
    return guarded(message, [&] {
        if (propto) { // what is constant is known only in terms of variables
            differentiate(m, propto, jacobian, z, log_p, nullptr);
            return;
        }
        Call call;
        std::vector<double> at(z, z + m->unc_num);
        *log_p = evaluate(*m->model, propto, jacobian, at, call.out());
    });
}

BS_PUBLIC int bs_log_density_gradient(const bs_model *m, bool propto, bool jacobian, const double *z, double *log_p,
                                      double *grad, char **message)
{
    return guarded(message, [&] { differentiate(m, propto, jacobian, z, log_p, grad); });
}

BS_PUBLIC bs_rng *bs_rng_construct(unsigned int seed, char **message)
{
    std::unique_ptr<bs_rng> rng;
    guarded(message, [&] { rng.reset(new bs_rng{stan::services::util::create_rng(seed, 1)}); });
    return rng.release();
}

BS_PUBLIC void bs_rng_destruct(bs_rng *rng)
{
    delete rng;
}

BS_PUBLIC int bs_set_print_callback(PrintCallback callback, char **message)
{
    (void)message;
    print_callback.store(callback);
    return 0;
}
}
