#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli/options.hpp"

namespace ddp {

/// The words of the command line and of the metrics for a choice.
template <class Choice>
constexpr auto choices = nullptr;
template <>
inline constexpr std::array<std::pair<std::string_view, Activation>, 2> choices<Activation> = {
    {{"relu", Activation::relu}, {"gelu", Activation::gelu}}};
template <>
inline constexpr std::array<std::pair<std::string_view, LossKind>, 2> choices<LossKind> = {
    {{"cross-entropy", LossKind::cross_entropy}, {"mse", LossKind::mse}}};
template <>
inline constexpr std::array<std::pair<std::string_view, Precision>, 4> choices<Precision> = {
    {{"fp64", Precision::fp64},
     {"fp32", Precision::fp32},
     {"fp16", Precision::fp16},
     {"bf16", Precision::bf16}}};
template <>
inline constexpr std::array<std::pair<std::string_view, Accumulate>, 2> choices<Accumulate> = {
    {{"running", Accumulate::running}, {"pairwise", Accumulate::pairwise}}};
template <>
inline constexpr std::array<std::pair<std::string_view, AllReduceKind>, 6> choices<AllReduceKind> =
    {{{"naive", AllReduceKind::naive},
      {"ring", AllReduceKind::ring},
      {"ring-segmented", AllReduceKind::ring_segmented},
      {"tree", AllReduceKind::tree},
      {"mpi", AllReduceKind::mpi},
      {"nccl", AllReduceKind::nccl}}};
template <>
inline constexpr std::array<std::pair<std::string_view, MpiBuffers>, 3> choices<MpiBuffers> = {
    {{"auto", MpiBuffers::automatic}, {"host", MpiBuffers::host}, {"device", MpiBuffers::device}}};

template <>
inline constexpr std::array<std::pair<std::string_view, ReduceType>, 2> choices<ReduceType> = {
    {{"fp32", ReduceType::fp32}, {"same", ReduceType::same}}};
template <>
inline constexpr std::array<std::pair<std::string_view, Scaling>, 3> choices<Scaling> = {
    {{"linear", Scaling::linear}, {"sqrt", Scaling::sqrt}, {"none", Scaling::none}}};
template <>
inline constexpr std::array<std::pair<std::string_view, Schedule>, 3> choices<Schedule> = {
    {{"constant", Schedule::constant}, {"step", Schedule::step}, {"cosine", Schedule::cosine}}};
template <>
inline constexpr std::array<std::pair<std::string_view, MomentumForm>, 2> choices<MomentumForm> = {
    {{"gradient", MomentumForm::gradient}, {"velocity", MomentumForm::velocity}}};

template <class Choice>
constexpr std::string_view name_of(Choice choice) {
  for (const auto& [name, value] : choices<Choice>) {
    if (value == choice) return name;
  }
  return "?";
}

/// 784-512-256-10: layer sizes as `--layers` reads them.
inline std::string layers_text(const std::vector<int>& layers) {
  std::string text;
  for (const int size : layers) {
    if (!text.empty()) text += '-';
    text += std::to_string(size);
  }
  return text;
}

}  // namespace ddp
