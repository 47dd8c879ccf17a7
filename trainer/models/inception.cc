// GoogLeNet (Szegedy et al. 2014) and Inception-v3 (Szegedy et al. 2015).
#include <array>
#include <string>

#include "trainer/models/factories.h"

namespace paceline::trainer::models {
namespace {

using torch::Tensor;

Tensor overlapping_max(const Tensor& x) { return torch::max_pool2d(x, 3, 2, 1); }

Tensor global_average(const Tensor& x) { return torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1); }

// ---------------------------------------------------------------------------------------------------------------- GoogLeNet

struct Widths {
  std::int64_t in, conv1x1, reduce3x3, conv3x3, reduce5x5, conv5x5, pool_projection;
};

class Inception : public torch::nn::Module {
 public:
  explicit Inception(const Widths& w)
      : conv1x1_(register_module("conv1x1", Convolution(convolution(w.in, w.conv1x1, 1)))),
        reduce3x3_(register_module("reduce3x3", Convolution(convolution(w.in, w.reduce3x3, 1)))),
        conv3x3_(register_module("conv3x3", Convolution(convolution(w.reduce3x3, w.conv3x3, 3).padding(1)))),
        reduce5x5_(register_module("reduce5x5", Convolution(convolution(w.in, w.reduce5x5, 1)))),
        conv5x5_(register_module("conv5x5", Convolution(convolution(w.reduce5x5, w.conv5x5, 5).padding(2)))),
        pool_projection_(register_module("pool_projection", Convolution(convolution(w.in, w.pool_projection, 1)))) {}

  Tensor forward(const Tensor& x) {
    const Tensor one = torch::relu(conv1x1_->forward(x));
    const Tensor three = torch::relu(conv3x3_->forward(torch::relu(reduce3x3_->forward(x))));
    const Tensor five = torch::relu(conv5x5_->forward(torch::relu(reduce5x5_->forward(x))));
    const Tensor pool = torch::relu(pool_projection_->forward(torch::max_pool2d(x, 3, 1, 1)));
    return torch::cat({one, three, five, pool}, 1);
  }

 private:
  Convolution conv1x1_, reduce3x3_, conv3x3_, reduce5x5_, conv5x5_, pool_projection_;
};

class GooglenetHead : public torch::nn::Module {
 public:
  explicit GooglenetHead(std::int64_t in) : conv_(register_module("conv", Convolution(convolution(in, 128, 1)))) {}

  Tensor forward(const Tensor& input) {
    Tensor x = torch::relu(conv_->forward(torch::avg_pool2d(input, 5, 3)));
    x = torch::relu(fc1_->forward(x.flatten(1)));
    return fc2_->forward(torch::dropout(x, 0.7, is_training()));
  }

 private:
  Convolution conv_;
  torch::nn::Linear fc1_ = register_module("fc1", torch::nn::Linear(128 * 4 * 4, 1024));
  torch::nn::Linear fc2_ = register_module("fc2", torch::nn::Linear(1024, 1000));
};

class Googlenet : public Network {
 public:
  explicit Googlenet(Auxiliary auxiliary) {
    if (auxiliary == Auxiliary::kWith) {
      aux1_ = register_module("aux1", std::make_shared<GooglenetHead>(512));
      aux2_ = register_module("aux2", std::make_shared<GooglenetHead>(528));
    }
    initialise_rectified(*this, 1000);
  }

  Tensor forward(const Tensor& input, const Tensor&) override { return run(input, nullptr); }

  Tensor loss(const Tensor& input, const Tensor& target) override {
    std::vector<Tensor> heads;
    const Tensor logits = run(input, is_training() && aux1_ ? &heads : nullptr);
    return weighted_loss(logits, heads, 0.3, target);
  }

 private:
  using Block = std::shared_ptr<Inception>;

  Block block(const std::string& name, const Widths& widths) { return register_module(name, std::make_shared<Inception>(widths)); }

  // The logits; those of the auxiliary classifiers go to `heads` where it is given.
  Tensor run(const Tensor& input, std::vector<Tensor>* heads) {
    const auto lrn = torch::nn::functional::LocalResponseNormFuncOptions(5).alpha(1e-4).beta(0.75).k(1);
    Tensor x = overlapping_max(torch::relu(conv1_->forward(input)));
    x = torch::nn::functional::local_response_norm(x, lrn);
    x = torch::relu(conv2_->forward(torch::relu(conv2_reduce_->forward(x))));
    x = overlapping_max(torch::nn::functional::local_response_norm(x, lrn));
    x = overlapping_max(inception3b_->forward(inception3a_->forward(x)));
    x = inception4a_->forward(x);
    if (heads) heads->push_back(aux1_->forward(x));
    x = inception4d_->forward(inception4c_->forward(inception4b_->forward(x)));
    if (heads) heads->push_back(aux2_->forward(x));
    x = overlapping_max(inception4e_->forward(x));
    x = global_average(inception5b_->forward(inception5a_->forward(x)));
    return fc_->forward(torch::dropout(x, 0.4, is_training()));
  }

  Convolution conv1_ = register_module("conv1", Convolution(convolution(3, 64, 7).stride(2).padding(3)));
  Convolution conv2_reduce_ = register_module("conv2_reduce", Convolution(convolution(64, 64, 1)));
  Convolution conv2_ = register_module("conv2", Convolution(convolution(64, 192, 3).padding(1)));
  Block inception3a_ = block("inception3a", {192, 64, 96, 128, 16, 32, 32});
  Block inception3b_ = block("inception3b", {256, 128, 128, 192, 32, 96, 64});
  Block inception4a_ = block("inception4a", {480, 192, 96, 208, 16, 48, 64});
  Block inception4b_ = block("inception4b", {512, 160, 112, 224, 24, 64, 64});
  Block inception4c_ = block("inception4c", {512, 128, 128, 256, 24, 64, 64});
  Block inception4d_ = block("inception4d", {512, 112, 144, 288, 32, 64, 64});
  Block inception4e_ = block("inception4e", {528, 256, 160, 320, 32, 128, 128});
  Block inception5a_ = block("inception5a", {832, 256, 160, 320, 32, 128, 128});
  Block inception5b_ = block("inception5b", {832, 384, 192, 384, 48, 128, 128});
  std::shared_ptr<GooglenetHead> aux1_, aux2_;
  torch::nn::Linear fc_ = register_module("fc", torch::nn::Linear(1024, 1000));
};

// ------------------------------------------------------------------------------------------------- Inception-v3, torchvision's
// names

// A convolution without bias, its normalisation and a rectifier.
class Basic : public torch::nn::Module {
 public:
  explicit Basic(torch::nn::Conv2dOptions options)
      : conv_(register_module("conv", Convolution(options.bias(false)))),
        bn_(register_module("bn", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(options.out_channels()).eps(0.001)))) {}

  Tensor forward(const Tensor& x) { return torch::relu(bn_->forward(conv_->forward(x))); }

 private:
  Convolution conv_;
  torch::nn::BatchNorm2d bn_;
};

using Unit = std::shared_ptr<Basic>;

// Kernel shapes that occur, each with the padding that keeps the size.
torch::nn::Conv2dOptions square(std::int64_t in, std::int64_t out, std::int64_t side) {
  return convolution(in, out, side).padding(side / 2);
}
torch::nn::Conv2dOptions row(std::int64_t in, std::int64_t out, std::int64_t length) {
  return convolution(in, out, {1, length}).padding({0, length / 2});
}
torch::nn::Conv2dOptions column(std::int64_t in, std::int64_t out, std::int64_t length) {
  return convolution(in, out, {length, 1}).padding({length / 2, 0});
}
torch::nn::Conv2dOptions halving(std::int64_t in, std::int64_t out) { return convolution(in, out, 3).stride(2); }

// Units that follow each other; each is registered under its own name with the block that owns the branch.
class Branch {
 public:
  Branch(torch::nn::Module& block, const std::vector<std::pair<std::string, torch::nn::Conv2dOptions>>& units) {
    for (const auto& [name, options] : units) units_.push_back(block.register_module(name, std::make_shared<Basic>(options)));
  }

  Tensor operator()(Tensor x) const {
    for (const Unit& unit : units_) x = unit->forward(x);
    return x;
  }

 private:
  std::vector<Unit> units_;
};

class Mixed : public torch::nn::Module {
 public:
  virtual Tensor forward(const Tensor& x) = 0;

 protected:
  Branch branch(const std::vector<std::pair<std::string, torch::nn::Conv2dOptions>>& units) { return Branch(*this, units); }
};

Tensor smoothed(const Tensor& x) { return torch::avg_pool2d(x, 3, 1, 1); }

class MixedA : public Mixed {
 public:
  MixedA(std::int64_t in, std::int64_t pool)
      : one_(branch({{"branch1x1", square(in, 64, 1)}})),
        five_(branch({{"branch5x5_1", square(in, 48, 1)}, {"branch5x5_2", square(48, 64, 5)}})),
        twice_(branch(
            {{"branch3x3dbl_1", square(in, 64, 1)}, {"branch3x3dbl_2", square(64, 96, 3)}, {"branch3x3dbl_3", square(96, 96, 3)}})),
        pool_(branch({{"branch_pool", square(in, pool, 1)}})) {}

  Tensor forward(const Tensor& x) override {
    const Tensor one = one_(x), five = five_(x), twice = twice_(x);
    return torch::cat({one, five, twice, pool_(smoothed(x))}, 1);
  }

 private:
  Branch one_, five_, twice_, pool_;
};

class MixedB : public Mixed {
 public:
  explicit MixedB(std::int64_t in)
      : three_(branch({{"branch3x3", halving(in, 384)}})),
        twice_(branch(
            {{"branch3x3dbl_1", square(in, 64, 1)}, {"branch3x3dbl_2", square(64, 96, 3)}, {"branch3x3dbl_3", halving(96, 96)}})) {}

  Tensor forward(const Tensor& x) override {
    const Tensor three = three_(x), twice = twice_(x);
    return torch::cat({three, twice, torch::max_pool2d(x, 3, 2)}, 1);
  }

 private:
  Branch three_, twice_;
};

class MixedC : public Mixed {
 public:
  explicit MixedC(std::int64_t inner)
      : one_(branch({{"branch1x1", square(768, 192, 1)}})),
        seven_(branch({{"branch7x7_1", square(768, inner, 1)},
                       {"branch7x7_2", row(inner, inner, 7)},
                       {"branch7x7_3", column(inner, 192, 7)}})),
        twice_(branch({{"branch7x7dbl_1", square(768, inner, 1)},
                       {"branch7x7dbl_2", column(inner, inner, 7)},
                       {"branch7x7dbl_3", row(inner, inner, 7)},
                       {"branch7x7dbl_4", column(inner, inner, 7)},
                       {"branch7x7dbl_5", row(inner, 192, 7)}})),
        pool_(branch({{"branch_pool", square(768, 192, 1)}})) {}

  Tensor forward(const Tensor& x) override {
    const Tensor one = one_(x), seven = seven_(x), twice = twice_(x);
    return torch::cat({one, seven, twice, pool_(smoothed(x))}, 1);
  }

 private:
  Branch one_, seven_, twice_, pool_;
};

class MixedD : public Mixed {
 public:
  MixedD()
      : three_(branch({{"branch3x3_1", square(768, 192, 1)}, {"branch3x3_2", halving(192, 320)}})),
        seven_(branch({{"branch7x7x3_1", square(768, 192, 1)},
                       {"branch7x7x3_2", row(192, 192, 7)},
                       {"branch7x7x3_3", column(192, 192, 7)},
                       {"branch7x7x3_4", halving(192, 192)}})) {}

  Tensor forward(const Tensor& x) override {
    const Tensor three = three_(x), seven = seven_(x);
    return torch::cat({three, seven, torch::max_pool2d(x, 3, 2)}, 1);
  }

 private:
  Branch three_, seven_;
};

class MixedE : public Mixed {
 public:
  explicit MixedE(std::int64_t in)
      : one_(branch({{"branch1x1", square(in, 320, 1)}})),
        three_(branch({{"branch3x3_1", square(in, 384, 1)}})),
        three_a_(branch({{"branch3x3_2a", row(384, 384, 3)}})),
        three_b_(branch({{"branch3x3_2b", column(384, 384, 3)}})),
        twice_(branch({{"branch3x3dbl_1", square(in, 448, 1)}, {"branch3x3dbl_2", square(448, 384, 3)}})),
        twice_a_(branch({{"branch3x3dbl_3a", row(384, 384, 3)}})),
        twice_b_(branch({{"branch3x3dbl_3b", column(384, 384, 3)}})),
        pool_(branch({{"branch_pool", square(in, 192, 1)}})) {}

  Tensor forward(const Tensor& x) override {
    const Tensor one = one_(x), three = three_(x), three_a = three_a_(three), three_b = three_b_(three);
    const Tensor twice = twice_(x), twice_a = twice_a_(twice), twice_b = twice_b_(twice);
    return torch::cat({one, three_a, three_b, twice_a, twice_b, pool_(smoothed(x))}, 1);
  }

 private:
  Branch one_, three_, three_a_, three_b_, twice_, twice_a_, twice_b_, pool_;
};

class InceptionHead : public torch::nn::Module {
 public:
  Tensor forward(const Tensor& x) { return fc_->forward(conv1_->forward(conv0_->forward(torch::avg_pool2d(x, 5, 3))).flatten(1)); }

 private:
  Unit conv0_ = register_module("conv0", std::make_shared<Basic>(square(768, 128, 1)));
  Unit conv1_ = register_module("conv1", std::make_shared<Basic>(convolution(128, 768, 5)));
  torch::nn::Linear fc_ = register_module("fc", torch::nn::Linear(768, 1000));
};

class InceptionV3 : public Network {
 public:
  explicit InceptionV3(Auxiliary auxiliary) {
    const auto unit = [this](const std::string& name, const torch::nn::Conv2dOptions& options) {
      return register_module(name, std::make_shared<Basic>(options));
    };
    stem_[0] = unit("Conv2d_1a_3x3", halving(3, 32));
    stem_[1] = unit("Conv2d_2a_3x3", convolution(32, 32, 3));
    stem_[2] = unit("Conv2d_2b_3x3", square(32, 64, 3));
    stem_[3] = unit("Conv2d_3b_1x1", square(64, 80, 1));
    stem_[4] = unit("Conv2d_4a_3x3", convolution(80, 192, 3));
    before_head_ = {
        add("Mixed_5b", std::make_shared<MixedA>(192, 32)), add("Mixed_5c", std::make_shared<MixedA>(256, 64)),
        add("Mixed_5d", std::make_shared<MixedA>(288, 64)), add("Mixed_6a", std::make_shared<MixedB>(288)),
        add("Mixed_6b", std::make_shared<MixedC>(128)),     add("Mixed_6c", std::make_shared<MixedC>(160)),
        add("Mixed_6d", std::make_shared<MixedC>(160)),     add("Mixed_6e", std::make_shared<MixedC>(192)),
    };
    if (auxiliary == Auxiliary::kWith) head_ = register_module("AuxLogits", std::make_shared<InceptionHead>());
    behind_head_ = {add("Mixed_7a", std::make_shared<MixedD>()), add("Mixed_7b", std::make_shared<MixedE>(1280)),
                    add("Mixed_7c", std::make_shared<MixedE>(2048))};
    fc_ = register_module("fc", torch::nn::Linear(2048, 1000));
    initialise_normalised(*this);
  }

  Tensor forward(const Tensor& input, const Tensor&) override { return run(input, nullptr); }

  Tensor loss(const Tensor& input, const Tensor& target) override {
    std::vector<Tensor> heads;
    const Tensor logits = run(input, is_training() && head_ ? &heads : nullptr);
    return weighted_loss(logits, heads, 0.4, target);
  }

 private:
  using Block = std::shared_ptr<Mixed>;

  Block add(const std::string& name, Block block) { return register_module(name, std::move(block)); }

  Tensor run(const Tensor& input, std::vector<Tensor>* heads) {
    Tensor x = torch::max_pool2d(stem_[2]->forward(stem_[1]->forward(stem_[0]->forward(input))), 3, 2);
    x = torch::max_pool2d(stem_[4]->forward(stem_[3]->forward(x)), 3, 2);
    for (const Block& block : before_head_) x = block->forward(x);
    if (heads) heads->push_back(head_->forward(x));
    for (const Block& block : behind_head_) x = block->forward(x);
    return fc_->forward(torch::dropout(global_average(x), 0.5, is_training()));
  }

  std::array<Unit, 5> stem_;
  std::vector<Block> before_head_, behind_head_;
  std::shared_ptr<InceptionHead> head_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_googlenet(Auxiliary auxiliary) { return std::make_shared<Googlenet>(auxiliary); }
std::shared_ptr<Network> make_inception_v3(Auxiliary auxiliary) { return std::make_shared<InceptionV3>(auxiliary); }

}  // namespace paceline::trainer::models
